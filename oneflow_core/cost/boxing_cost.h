// The time of one primitive of boxing on a cluster. Costs (the search of SBPs, insert_boxing) and
// times (actor_cost.h, the simulator) come from this one function.
//
//   const KernelCost kernels(cluster.device());
//   const BoxingWork work{.primitive = "all_gather", .axes = {1}, .members = 4,
//                         .written = 1 << 20, .received = 3 << 18};
//   double seconds = BoxingTime(work, mesh, cluster, kernels).both();
//
// Invariants:
// 1. On accelerators, received data goes over links (link_cost.h). A primitive that receives
//    nothing is a kernel that copies.
// 2. CPU devices of one process share its memory: boxing is a kernel that copies from one member,
//    or adds up the parts of all members. It takes no link.
// 3. The innermost level of the topology is a process if devices are CPUs and there are more levels
//    than one. An exchange with members in several processes takes its time in two parts. First
//    the link: messages and packets are on their way, and no worker is busy. Then the worker: it
//    copies near parts and sums.
// 4. On CPUs a firing costs the device's firing_seconds beside that. For GPUs the host issues
//    firings ahead, so they are no part of their times (FiringSeconds).
//
// Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// The kernels whose times boxing takes: a copy, or a sum.
inline constexpr const char* kCopyKernel = "slice";
inline constexpr const char* kSumKernel = "add";

// One firing of a primitive, on the device that has the most work.
struct BoxingWork {
  std::string_view primitive;  // Primitive::kind
  // Mesh axes along which members are read, ascending; for a transfer, the two stages. Neither: the
  // device alone.
  std::vector<int> axes = {};
  int from = -1, to = -1;
  int members = 1;  // of the group
  DType dtype = DType::kF32;
  bool sums = false;     // or takes a maximum of what the members hold
  double written = 0;    // bytes of the result
  double received = 0;   // bytes that come from other devices
  double flops = 0;      // as the plan's facts have them
  double rewritten = 0;  // bytes of a result that is added to, read beside what the members hold
};

// The data that one firing of an exchange moves between processes, for the process, or the member,
// that has most of it. 0 if all members are in one process.
struct FarTraffic {
  double bytes = 0;       // that a process takes in, or gives away
  double packets = 0;     // that a member asks for
  double most_pulls = 1;  // packets on their way to a member at once
  double placed = 0;      // bytes that arrive in a member's output: no worker touches them
};

// The bytes that the work receives over links, of which the devices of a plan read `taken` from
// others. An all-reduce reads each member once there; over links it goes around a ring.
double BytesOverLinks(const BoxingWork& work, double taken);

// The seconds that a firing costs its device's worker beside the kernel: 0 on accelerators, where
// the host issues it ahead.
double FiringSeconds(const proto::Cluster& cluster);

// Seconds of one firing: those of its device's worker, and before them those of the link.
struct ActorTime {
  double worker = 0, link = 0;
  double processor_usage = 0;  // of an exchange on accelerators: ProcessorUsage
  double both() const { return worker + link; }
};

// `kernels`: of the cluster's device. `far`: null if it was not counted; then it is estimated.
ActorTime BoxingTime(const BoxingWork& work, const Mesh& mesh, const proto::Cluster& cluster,
                     const KernelCost& kernels, const FarTraffic* far = nullptr);

// True if members of the exchange are in several processes of CPUs.
bool IsBetweenProcesses(const BoxingWork& work, const Mesh& mesh, const proto::Cluster& cluster);

// A lower bound of the time of any primitive whose result on a device has `written` bytes.
double LeastBoxingSeconds(double written, const proto::Cluster& cluster, const KernelCost& kernels);

// Seconds that a firing's messages and packets are under way, one after the other: entry, request,
// data, completion.
double LinkSeconds(const FarTraffic& traffic, const Link& link);

}  // namespace oneflow
