// The proof of a plan. The compiler runs it on what it made, and a worker again on what it loads:
// a plan that passes fits its types and kernels, cannot deadlock, and never uses a byte twice at
// once.
//
//   RETURN_IF_ERROR(VerifyPlan(plan));
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct VerifyOptions {
  // True if the kernels are the library's own; those of a test cannot be proved.
  bool kernels = true;
};

// VerifyTypes, then for each program VerifyKernels, VerifyFeeds, VerifyStates, VerifyLiveness and
// VerifyMemory.
// Any message of any content may be given: a refusal is a Status that says where, never a
// crash.
absl::Status VerifyPlan(const proto::Plan& plan, const VerifyOptions& options = {});

}  // namespace oneflow
