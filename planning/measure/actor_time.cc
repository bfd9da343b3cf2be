#include "planning/measure/actor_time.h"

#include <algorithm>
#include <chrono>

#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

absl::StatusOr<Kernel> MakeNothing(const KernelSetup&) {
  return Kernel([](const KernelCall&) { return absl::OkStatus(); });
}

absl::StatusOr<double> RunSteps(Runtime& runtime, int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(runtime.Run("train", {}, steps));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(steps);
}

}  // namespace

absl::StatusOr<double> TimeStep(const proto::Plan& plan, double budget, bool spin) {
  RuntimeOptions options;
  options.make_kernel = MakeNothing;
  options.spin = spin;
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(plan, options));
  ASSIGN_OR_RETURN(const double first, RunSteps(*runtime, 100));  // warm, and how many to run
  return RunSteps(*runtime,
                  std::clamp<int64_t>(static_cast<int64_t>(budget / first), 100, 1 << 24));
}

}  // namespace oneflow
