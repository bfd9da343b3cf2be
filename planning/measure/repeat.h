// Repeat: times a piece of work until its budget is used up.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace oneflow {

// Seconds of each repetition of `work`: one to warm up, which is left out, then at least three, and
// more while `budget` seconds are not over.
absl::StatusOr<std::vector<double>> Repeat(double budget, absl::FunctionRef<absl::Status()> work);

// Requires at least one.
double Median(std::vector<double> values);

}  // namespace oneflow
