// The proof of a plan. The compiler runs it on what it made, and a worker again on what it loads:
// a plan that passes fits its types, cannot deadlock, and never uses a byte twice at once.
//
//   RETURN_IF_ERROR(VerifyPlan(plan));
#pragma once

#include "absl/status/status.h"
#include "proto/plan.pb.h"

namespace oneflow {

// VerifyTypes, then for each program VerifyLiveness and VerifyMemory. Any message of any content
// may be given: a refusal is a Status that names the place, never a crash.
absl::Status VerifyPlan(const proto::Plan& plan);

}  // namespace oneflow
