// SimulateOn: simulates a plan on a cluster, with times from the cost model.
//
//   ASSIGN_OR_RETURN(SimulatedRun run, SimulateOn(cluster, plan, "train", /*steps=*/2));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/mesh.h"
#include "planning/simulate/simulate.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/trace.pb.h"

namespace oneflow {

// The cluster with processes that hold ranks / `processes` ranks each: its innermost level is a
// process. Refuses numbers that do not divide the plan's ranks, and a cluster without a link
// between processes; a cluster without any level gets default ones.
absl::StatusOr<proto::Cluster> WithProcesses(proto::Cluster cluster, const proto::Plan& plan,
                                             int processes);

// The number of a plan's processes on a cluster: groups of its innermost level if devices are CPUs
// and there is more than one level; else 1.
absl::StatusOr<int> ProcessesOn(const proto::Cluster& cluster, const proto::Plan& plan);

// The cores of a host that the kernel threads of its devices share.
struct CoreSharing {
  int threads = 0, cores = 0;  // of the devices of a host; 0 cores: unknown
  // The factor by which each device is slowed down: at least 1.
  double slowdown() const { return cores > 0 && threads > cores ? double(threads) / cores : 1; }
};

// For a plan of CPU devices on a cluster of CPUs. If the cluster has three levels or more, the two
// innermost are a host; else all devices are on one host.
CoreSharing FindCoreSharing(const proto::Cluster& cluster, const proto::Plan& plan);

// Refuses a mesh of more devices than a cluster of accelerators has. CPU devices are threads, so a
// host has no limit; neither has a cluster with a level without a size.
absl::Status CheckDevices(const proto::Cluster& cluster, const Mesh& mesh);

// On CPU devices one worker drives all streams of kernels and exchanges of a device, copies between
// device and host and the host's kernels have others (SimulateOptions::worker_a_device), and
// messages between workers take the first level's latency, as in the threaded runtime. On other
// devices streams run independently, and primitives have their own latencies. Data between
// processes takes the time of its link. If kernel threads share cores, all work takes
// CoreSharing::slowdown() times as long, as if all devices were busy all of the time. If exchanges
// occupy a part u of the processors (Level.processor_usage), a kernel that runs beside one for s
// seconds takes u s longer, on average over its firings; the run is first simulated without this,
// to find these kernels. Proves the plan first, because a file may have been edited, and calls
// CheckDevices. Periods are skipped after `skip_after` firings; analyses of single firings pass
// SimulateOptions::kNeverSkip.
inline constexpr int64_t kSkipAfter = int64_t{1} << 18;
absl::StatusOr<SimulatedRun> SimulateOn(const proto::Cluster& cluster, const proto::Plan& plan,
                                        std::string_view program, int64_t steps,
                                        int64_t skip_after = kSkipAfter,
                                        int64_t most_firings = SimulateOptions::kMostFirings);

// The same without the proof, which takes as long as the simulation. Requires a plan that passed
// VerifyPlan in this process, as one that was just compiled.
absl::StatusOr<SimulatedRun> SimulateProved(const proto::Cluster& cluster, const proto::Plan& plan,
                                            std::string_view program, int64_t steps,
                                            int64_t skip_after = kSkipAfter,
                                            int64_t most_firings = SimulateOptions::kMostFirings);

// A simulated run in the form of the traces of processes (trace_events.h), from time 0 on, marked
// as predicted. `first_step`: number of its first step. Requires the plan that was simulated, and a
// run in which no period was skipped.
proto::ProcessTrace SimulatedTrace(const proto::Plan& plan, const SimulatedRun& run,
                                   int64_t first_step = 0);

}  // namespace oneflow
