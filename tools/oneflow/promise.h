// Promised and took: the prediction of a run of `oneflow train`, printed before its first step, and
// the comparison with the measurement, printed after its last.
//
//   ASSIGN_OR_RETURN(const Promise promise, MakePromise(plan, cluster, basis, /*traced=*/false));
//   std::fputs(PromiseText(promise).c_str(), stdout);
//   ... the run ...
//   std::fputs(TookText(promise, took).c_str(), stdout);
//
// The promise is the simulator's (docs/simulate.md), and as accurate as its cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/simulate/measured_use.h"
#include "actor_runtime/simulate/simulate.h"
#include "nlohmann/json.hpp"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct Promise {
  std::string basis;  // of which cluster: "by the kernels of this plan, timed here"
  SimulatedRun run;   // two steps
  double step_seconds = 0;
  DeviceTime mean;  // of a step, over the stages
  double bubble = 0;
  int64_t device_bytes = 0;  // of the largest device, as planned
};

// Measurements of a run. Steps that were not seen are not included.
struct Took {
  double step_seconds = 0;  // the median of all steps but the first; 0: none
  int64_t steps = 0;        // of which it is the median
  std::optional<MeasuredUse> use;
  int64_t device_bytes = 0;  // of the largest device of this process
};

// Requires a plan that passed VerifyPlan. Refuses clusters that SimulateOn refuses. `traced`: the
// run is looked at firing by firing, so that no period of it is skipped.
absl::StatusOr<Promise> MakePromise(const proto::Plan& plan, const proto::Cluster& cluster,
                                    std::string basis, bool traced);

// The seconds of steps, in bounded memory: those of the first ones.
class StepTimes {
 public:
  StepTimes() { seconds_.reserve(kMost); }
  // Allocates nothing.
  void Add(double seconds) {
    if (seconds_.size() < kMost) seconds_.push_back(seconds);
  }
  // Into `took`. The first step warms up, and counts only where it is alone.
  void Sum(Took* took) const;

 private:
  static constexpr size_t kMost = size_t{1} << 14;
  std::vector<double> seconds_;
};

// One line.
std::string PromiseText(const Promise& promise);
// A table: time, its causes, bubble, bytes. Empty where no step was seen.
std::string TookText(const Promise& promise, const Took& took);
// {"promised": {"step_seconds", "compute_seconds", ..., "device_bytes"}, "took": {...}}.
nlohmann::ordered_json TookJson(const Promise& promise, const Took& took);

// Firings in a step of the stream of program "train" that has most of them.
int64_t MostFiringsOfStream(const proto::Plan& plan);

}  // namespace oneflow
