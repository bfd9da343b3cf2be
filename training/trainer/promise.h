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
#include "nlohmann/json.hpp"
#include "oneflow_core/print/band.h"
#include "planning/simulate/measured_use.h"
#include "planning/simulate/simulate.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct Promise {
  std::string basis;  // the rates: "by the kernels of this plan, timed here"
  SimulatedRun run;   // two steps
  double step_seconds = 0;
  // Set by the caller for a promise on --cluster. Without a cluster there is none: the run itself
  // is compared.
  std::optional<Band> band;
  proto::Cluster cluster;          // whose rates these are
  std::vector<DeviceTime> stages;  // a step's, by stage
  DeviceTime mean;                 // over the stages
  double bubble = 0;
  int64_t device_bytes = 0;  // the largest device's, as planned
  double device_tokens = 0;  // of a step, a device; 0: the graph reads no tokens
};

// Measurements of a run. Steps that were not seen are not included.
struct Took {
  double step_seconds = 0;  // the median of all steps but the first; 0: none
  int64_t steps = 0;        // the median is over these
  // CPU time of this process over the time of a step, the median of the same steps: in how many
  // threads it ran.
  double threads_running = 0;
  std::optional<MeasuredUse> use;  // the mean of a few steps, and its parts
  int devices = 1;                 // this process's
  int64_t device_bytes = 0;        // the largest one's
};

// True if the machine kept the run waiting for cores: the process ran for less time than its
// devices say that kernels took (one thread each is counted, so that waits within a kernel do not
// count). Times of such a run say little.
bool WasBusy(const Took& took);

// Requires a plan that passed VerifyPlan. Refuses clusters that SimulateOn refuses. `traced`: the
// run is looked at firing by firing, so that no period of it is skipped.
absl::StatusOr<Promise> MakePromise(const proto::Plan& plan, const proto::Cluster& cluster,
                                    std::string basis, bool traced);

// The seconds of steps, in bounded memory: those of the first ones.
class StepTimes {
 public:
  StepTimes() { seconds_.reserve(kMost), threads_.reserve(kMost); }
  // `cpu_seconds`: of the process, so far. Allocates nothing.
  void Add(double seconds, double cpu_seconds) {
    if (seconds_.size() == kMost) return;
    seconds_.push_back(seconds);
    threads_.push_back(seconds > 0 ? (cpu_seconds - cpu_seconds_) / seconds : 0);
    cpu_seconds_ = cpu_seconds;
  }
  // Into `took`. The first step warms up, and counts only where it is alone.
  void Sum(Took* took) const;

 private:
  static constexpr size_t kMost = size_t{1} << 14;
  std::vector<double> seconds_, threads_;
  double cpu_seconds_ = 0;
};

// CPU time of this process so far.
double ProcessSeconds();

// One line.
std::string PromiseText(const Promise& promise);
// A table: time, the mean of a few steps and its parts, bubble, bytes; and whether the machine was
// busy. Empty where no step was seen.
std::string TookText(const Promise& promise, const Took& took);
// {"promised": {"step_seconds", "compared", "compute_seconds", ..., "device_bytes"}, "took":
// {...}}.
nlohmann::ordered_json TookJson(const Promise& promise, const Took& took);

// Firings in a step of the stream of program "train" that has most of them.
int64_t MostFiringsOfStream(const proto::Plan& plan);

}  // namespace oneflow
