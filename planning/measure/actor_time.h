// Measures a plan whose kernels compute nothing: the cost of its actors and messages.
#pragma once

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Seconds a step of program "train", over about `budget` seconds. `spin`: workers look for messages
// before they sleep (RuntimeOptions::spin).
absl::StatusOr<double> TimeStep(const proto::Plan& plan, double budget, bool spin = true);

}  // namespace oneflow
