#include "tools/oneflow/machine_flops.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/status.h"
#include "tools/measure/kernel_time.h"
#include "tools/oneflow/metrics_log.h"

namespace oneflow {
namespace {

// Kernel threads that would run at once.
int KernelThreads(const Runtime& runtime) { return runtime.ranks() * runtime.kernel_threads(); }

// What the cores that the run may use do in products of matrices: of the types that it multiplies.
absl::StatusOr<double> FlopsHere(const Runtime& runtime) {
  const int threads = std::min(KernelThreads(runtime), Cores());
  ASSIGN_OR_RETURN(const double rate, MeasureMatrixRate(threads));
  if (runtime.plan().train().precision() != proto::BF16) return rate;
  ASSIGN_OR_RETURN(const double bf16, MeasureMatrixRate(threads, DType::kBF16));
  return std::max(rate, bf16);
}

double NumberIn(const std::string& text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) ? number : 0;
}

}  // namespace

void WarnOfCores(const Runtime& runtime) {
  const int cores = Cores();
  if (KernelThreads(runtime) <= cores) return;
  const std::string mend = runtime.ranks() > cores
                               ? "a mesh of " + std::to_string(cores) + " or fewer devices"
                               : "--threads=" + std::to_string(cores);
  std::fprintf(stderr,
               "oneflow: warning: %d devices of %d kernel threads each take turns on the %d cores "
               "that this process may use; it would take no longer with %s\n",
               runtime.ranks(), runtime.kernel_threads(), cores, mend.c_str());
}

absl::StatusOr<double> MachineFlops(const Runtime& runtime, Processes* processes) {
  ASSIGN_OR_RETURN(const double rate, FlopsHere(runtime));
  if (processes == nullptr) return rate;
  ASSIGN_OR_RETURN(const std::string all, processes->Round("matrix rate", ExactDouble(rate),
                                                           [](std::span<const std::string> rates) {
                                                             double sum = 0;
                                                             for (const std::string& text : rates)
                                                               sum += NumberIn(text);
                                                             return ExactDouble(sum);
                                                           }));
  return NumberIn(all);
}

}  // namespace oneflow
