#include "planning/measure/repeat.h"

#include <algorithm>
#include <chrono>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<std::vector<double>> Repeat(double budget, absl::FunctionRef<absl::Status()> work) {
  using Clock = std::chrono::steady_clock;
  RETURN_IF_ERROR(work());
  std::vector<double> seconds;
  for (double spent = 0; seconds.size() < 3 || spent < budget; spent += seconds.back()) {
    const auto start = Clock::now();
    RETURN_IF_ERROR(work());
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace oneflow
