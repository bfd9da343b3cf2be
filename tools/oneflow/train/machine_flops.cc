#include "tools/oneflow/train/machine_flops.h"

#include <algorithm>
#include <span>
#include <string>

#include "absl/strings/numbers.h"
#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/status.h"
#include "planning/measure/kernel_time.h"
#include "training/trainer/metrics_log.h"

namespace oneflow {
namespace {

// The rate of matrix products on the cores that the run may use, for the types that it multiplies.
absl::StatusOr<double> FlopsHere(const Runtime& runtime) {
  const int threads = std::min(KernelThreads(runtime), Cores());
  ASSIGN_OR_RETURN(const double rate, MeasureMatrixRate(threads));
  if (runtime.plan().recipe().precision() != proto::BF16) return rate;
  ASSIGN_OR_RETURN(const double bf16, MeasureMatrixRate(threads, DType::kBF16));
  return std::max(rate, bf16);
}

double NumberIn(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) ? number : 0;
}

}  // namespace

int KernelThreads(const Runtime& runtime) { return runtime.ranks() * runtime.kernel_threads(); }

absl::StatusOr<double> MachineFlops(const Runtime& runtime, ProcessGroup& group) {
  ASSIGN_OR_RETURN(const double rate, FlopsHere(runtime));
  const auto add = [](std::span<const std::string> rates) {
    double sum = 0;
    for (const std::string& text : rates) sum += NumberIn(text);
    return ExactDouble(sum);
  };
  ASSIGN_OR_RETURN(const std::string all, group.Round("matrix rate", ExactDouble(rate), add));
  return NumberIn(all);
}

}  // namespace oneflow
