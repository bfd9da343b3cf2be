// Proves a plan. The compiler runs the proof on its result, and a worker again on the plan it
// loads. A plan that passes fits its types and kernels, cannot deadlock, and never uses a byte
// twice at once.
//
//   RETURN_IF_ERROR(VerifyPlan(plan));
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct VerifyOptions {
  // True if the kernels are the library's own; those of a test cannot be proved.
  bool kernels = true;
  // True if kernels must also do the work that the plan's facts count (VerifyKernels).
  bool work = false;
};

// Runs VerifyTypes, then for each program VerifyKernels, VerifyFeeds, VerifyStates, VerifyLiveness
// and VerifyMemory. Accepts messages of any content: a refusal is a Status with the location, never
// a crash.
absl::Status VerifyPlan(const proto::Plan& plan, const VerifyOptions& options = {});

}  // namespace oneflow
