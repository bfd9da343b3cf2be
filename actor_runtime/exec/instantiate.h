// From a plan to a net: the actors of the devices of a process, made from the plan alone; and who
// fires an exchange together, from the plan's groups. Both ends of an edge compute their ports from
// the plan, so nothing is exchanged.
//
//   ASSIGN_OR_RETURN(StageMesh mesh, StageMeshOf(plan));
//   ASSIGN_OR_RETURN(ActorNet net, Instantiate(plan, /*program=*/0, mesh, {0, mesh.ranks()}));
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/net/plan_net.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The spec of an actor on a device of its stage: the same on all of them but for the rank.
ActorSpec SpecOf(const PlanNet& plan_net, uint32_t program, int actor, int rank);

// All actors and streams of the ranks `own`, which are ranks of the mesh. Requires a plan that
// passed VerifyTypes, or VerifyPlan, which says that the net is live, too.
absl::StatusOr<ActorNet> Instantiate(const proto::Plan& plan, int program, const StageMesh& mesh,
                                     RankRange own);

}  // namespace oneflow
