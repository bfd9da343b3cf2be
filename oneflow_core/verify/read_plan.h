// Reads plans from files that anybody may have edited.
//
//   ASSIGN_OR_RETURN(proto::Plan plan, ReadPlan("gpt.plan"));
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Reads a plan that is well-formed (VerifyTypes), so that readers may look up everything that its
// ids name. VerifyPlan proves that it is live and memory-safe and suits its kernels, before it is
// run.
absl::StatusOr<proto::Plan> ReadPlan(const std::string& path);
// Does the same for the bytes of a plan file (plan_format.h), which came from elsewhere; `where`
// begins the errors. The fingerprint is computed from the content.
absl::StatusOr<proto::Plan> ReceivePlan(std::string_view bytes, const std::string& where);

}  // namespace oneflow
