// Makes a net from a plan: the actors of the devices of a process, from the plan alone, and the
// members of each exchange, from the plan's groups. Both ends of an edge compute their ports from
// the plan, so processes exchange nothing.
//
//   ASSIGN_OR_RETURN(StageMesh mesh, MakeStageMesh(plan));
//   ASSIGN_OR_RETURN(ActorNet net, Instantiate(plan, /*program=*/0, mesh, {0, mesh.ranks()}));
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/exec/net.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/net/plan_net.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The spec of an actor on a device of its stage; specs on its devices differ only in the rank.
ActorSpec MakeSpec(const PlanNet& plan_net, uint32_t program, int actor, int rank);

// All actors and streams of the ranks `own`, which are ranks of the mesh. Requires a plan that
// passed VerifyTypes, or VerifyPlan, which also proves that the net is live.
absl::StatusOr<ActorNet> Instantiate(const proto::Plan& plan, int program, const StageMesh& mesh,
                                     RankRange own);

}  // namespace oneflow
