// How long the actors of a program take on a cluster: kernels by kernel_cost.h, boxing by
// boxing_cost.h, copies between device and host, and what the host computes, by host_cost.h.
//
//   ASSIGN_OR_RETURN(std::vector<double> seconds, ActorSeconds(plan, program, facts, cluster));
//
// Shapes are those of the device with the largest part; a group is as slow as its slowest link. Of
// what the plan says only the kernel, its layouts and group, and of its facts FLOPs and bytes
// count: waiting is the simulator's.
//
// Boxing takes what boxing_cost.h says, the same function that the compiler's prices come from. A
// firing on a CPU costs the device's firing_seconds beside its kernel.
//
// The host computes what reads and writes data in its memory only: a program that is priced before
// its streams are written says so by the memory of its registers alone.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// By how much longer kernels take because some of `devices` are slow: proto::Spread, at least 1.
// All devices of a run wait for the slowest, of its stage in exchanges and of others through the
// pipe. Nodes are the units of the innermost level; one without a size holds all devices.
double FindSlowdown(const proto::Cluster& cluster, int64_t devices);

// What one firing on one device computes, reads and writes. A register that sums over micro-batches
// is read, too. Requires a plan that passed VerifyPlan.
absl::StatusOr<CallWork> FindCallWork(const proto::Plan& plan, const proto::Program& program,
                                      const proto::ProgramFacts& facts, const proto::Actor& actor);

// By actor. Requires a plan that passed VerifyPlan. `far`: by actor; empty: estimated from layouts.
absl::StatusOr<std::vector<ActorTime>> ActorTimes(const proto::Plan& plan,
                                                  const proto::Program& program,
                                                  const proto::ProgramFacts& facts,
                                                  const proto::Cluster& cluster,
                                                  const std::vector<FarTraffic>& far = {});

// Both parts together.
absl::StatusOr<std::vector<double>> ActorSeconds(const proto::Plan& plan,
                                                 const proto::Program& program,
                                                 const proto::ProgramFacts& facts,
                                                 const proto::Cluster& cluster);

}  // namespace oneflow
