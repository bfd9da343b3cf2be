// A plan on a cluster: Simulate with the times that the cost model gives.
//
//   ASSIGN_OR_RETURN(SimulatedRun run, SimulateOn(cluster, plan, "train", /*steps=*/2));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "actor_runtime/simulate/simulate.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/trace.pb.h"

namespace oneflow {

// The cluster with as many processes as ranks over `processes` hold: its innermost level is a
// process. Refuses numbers that do not divide the plan's ranks, and a cluster that does not say how
// processes are joined; one without any level gets made-up ones.
absl::StatusOr<proto::Cluster> WithProcesses(proto::Cluster cluster, const proto::Plan& plan,
                                             int processes);

// Processes of a plan on a cluster: units of its innermost level where devices are CPUs and there
// are more levels than one; else 1.
absl::StatusOr<int> ProcessesOn(const proto::Cluster& cluster, const proto::Plan& plan);

// The cores of a host that the kernel threads of its devices share.
struct CoreSharing {
  int threads = 0, cores = 0;  // of the devices of a host; 0 cores: unknown
  // By what each device is slowed down: at least 1.
  double slowdown() const { return cores > 0 && threads > cores ? double(threads) / cores : 1; }
};

// Of a plan of CPU devices on a cluster of them. Where the cluster has three levels or more, the
// two innermost are a host; else all devices are on one.
CoreSharing CoreSharingOf(const proto::Cluster& cluster, const proto::Plan& plan);

// Refuses a plan for more devices than a cluster of accelerators has. CPU devices are threads, of
// which a host can have any number; a cluster with a level of no stated size is unlimited.
absl::Status CheckDevices(const proto::Cluster& cluster, const proto::Plan& plan);

// On CPU devices one worker drives all streams of a device and messages between workers take the
// first level's latency, as in the threaded runtime. On others every stream goes by itself, and
// latencies are the primitives' own. What crosses processes takes the time of its link. Where
// kernel threads share cores, all work takes CoreSharing::slowdown() times as long: as if all
// devices were busy all of the time. Where exchanges keep a part u of the processors busy
// (Level.processor_usage) a kernel takes u s longer for s seconds beside one, on average over its
// firings: so the run is simulated first without it, to see which kernels are. Proves the plan
// first: a file may have been edited. CheckDevices, too. Periods are skipped after `skip_after`
// firings; runs that are looked at firing by firing give SimulateOptions::kNeverSkip.
inline constexpr int64_t kSkipAfter = int64_t{1} << 18;
absl::StatusOr<SimulatedRun> SimulateOn(const proto::Cluster& cluster, const proto::Plan& plan,
                                        std::string_view program, int64_t steps,
                                        int64_t skip_after = kSkipAfter,
                                        int64_t most_firings = SimulateOptions::kMostFirings);

// Seconds of a step of a program on the way of being compiled, of which offsets and proof are not
// needed: for the compiler, to compare layouts and plans. All processes are taken for one.
// RESOURCE_EXHAUSTED where more than 2^20 firings do not repeat themselves: it would take seconds.
absl::StatusOr<double> SimulatedStepSeconds(const proto::Cluster& cluster, const proto::Plan& plan,
                                            std::string_view program);

// A simulated run in the form of the traces of processes (trace_json.h), from moment 0 on, as
// predicted. `first_step`: number of its first step. Requires the plan that was simulated, and a
// run in which no period was skipped.
proto::ProcessTrace SimulatedTrace(const proto::Plan& plan, const SimulatedRun& run,
                                   int64_t first_step = 0);
// The same alone, as JSON in the form of `train --trace`.
std::string SimulatedTraceJson(const proto::Plan& plan, const SimulatedRun& run);

}  // namespace oneflow
