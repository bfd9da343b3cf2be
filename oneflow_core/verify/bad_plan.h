// The error of a plan that breaks a rule, for the parts of VerifyPlan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "oneflow_core/base/status.h"

namespace oneflow {

inline constexpr int64_t kAlign = 64;  // of registers and their parts, in bytes

inline absl::Status Bad(std::string_view where, const std::string& what) {
  return InputError(where, what, "the plan was edited or damaged; compile it again");
}

}  // namespace oneflow
