// The times of the actors of a program on a cluster: kernels by kernel_cost.h, boxing by
// boxing_cost.h. host_cost.h has copies between device and host, and the work of the host.
//
//   ASSIGN_OR_RETURN(std::vector<double> seconds, ActorSeconds(plan, program, facts, cluster));
//
// Shapes are those of the device with the largest part; a group is as slow as its slowest link. A
// time depends only on the actor's kernel, its layouts and group, and on the FLOPs and bytes of its
// facts. Waiting is the simulator's part.
//
// Boxing takes the time of boxing_cost.h, the function that also gives the compiler's costs. A
// firing on a CPU costs the device's firing_seconds beside its kernel.
//
// The host runs the actors that read and write data in its memory only. Before a program has
// streams, the memory of its registers alone shows this.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// The factor by which kernels take longer because some of `devices` are slow: proto::Spread, at
// least 1. All devices of a run wait for the slowest, of its stage in exchanges and of others
// through the pipe. Nodes are the units of the innermost level; one without a size holds all
// devices.
double FindSlowdown(const proto::Cluster& cluster, int64_t devices);

// The FLOPs and bytes of one firing on one device. A register that sums over micro-batches is read,
// too. Requires a plan that passed VerifyPlan.
absl::StatusOr<CallWork> FindCallWork(const proto::Plan& plan, const proto::Program& program,
                                      const proto::ProgramFacts& facts, const proto::Actor& actor);

// Times by actor. Requires a plan that passed VerifyPlan. `far`: by actor; empty: estimated from
// layouts.
absl::StatusOr<std::vector<ActorTime>> ActorTimes(const proto::Plan& plan,
                                                  const proto::Program& program,
                                                  const proto::ProgramFacts& facts,
                                                  const proto::Cluster& cluster,
                                                  const std::vector<FarTraffic>& far = {});

// The sum of both parts, by actor.
absl::StatusOr<std::vector<double>> ActorSeconds(const proto::Plan& plan,
                                                 const proto::Program& program,
                                                 const proto::ProgramFacts& facts,
                                                 const proto::Cluster& cluster);

}  // namespace oneflow
