// Plans from files that anybody may have edited.
//
//   ASSIGN_OR_RETURN(proto::Plan plan, ReadPlan("gpt.plan"));
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A plan that is well-formed (VerifyTypes), so that readers may look up whatever its ids name. That
// it is live and memory-safe and suits its kernels is VerifyPlan's to prove before it is run.
absl::StatusOr<proto::Plan> ReadPlan(const std::string& path);
// The same of the bytes of a plan file (plan_format.h), which came from elsewhere; `where` begins
// the errors. Its fingerprint is that of what it says.
absl::StatusOr<proto::Plan> ReceivePlan(std::string_view bytes, const std::string& where);

}  // namespace oneflow
