// How long the actors of a program take on a cluster: kernels by kernel_cost.h, boxing by
// link_cost.h.
//
//   ASSIGN_OR_RETURN(std::vector<double> seconds, ActorSeconds(plan, program, facts, cluster));
//
// Shapes are those of the device with the largest part; a group is as slow as its slowest link. Of
// what the plan says only the kernel, its layouts and group, and of its facts FLOPs and bytes
// count: waiting is the simulator's.
//
// Where devices are CPUs of one process, boxing is a kernel: it reads the members' memory in place.
// Else an exchange is a primitive over links. A firing costs the device's firing_seconds beside its
// kernel.
//
// The innermost level of the topology is a process where devices are CPUs and there are more levels
// than one. An exchange with members in several processes takes its time in two parts: first the
// link, while messages and packets are on their way and no worker is kept; then the worker, which
// copies what is near and sums.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/cost/link_cost.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// What one firing on one device computes, reads and writes. A register that sums over micro-batches
// is read, too. Requires a plan that passed VerifyPlan.
absl::StatusOr<CallWork> CallOf(const proto::Plan& plan, const proto::Program& program,
                                const proto::ProgramFacts& facts, const proto::Actor& actor);

// What one firing of an exchange moves between processes: of the process, or the member, that has
// most of it. Nothing where all members are in one.
struct FarTraffic {
  double bytes = 0;    // that a process takes in, or gives away
  double packets = 0;  // that a member asks for
  double flights = 1;  // packets on their way to a member at once
  double placed = 0;   // bytes that land in a member's output: no worker touches them
};

// Seconds that a firing's messages and packets are under way: what enters, is asked for, comes, and
// is done, each after the other.
double LinkSeconds(const FarTraffic& traffic, const Link& link);

// Seconds of one firing: of its device's worker, and before that of the link.
struct ActorTime {
  double worker = 0, link = 0;
  double processor_usage = 0;  // of an exchange on accelerators: ProcessorUsage
  double both() const { return worker + link; }
};

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
