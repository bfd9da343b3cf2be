// What the checks of a plan share.
#pragma once

#include <cstdint>
#include <string_view>

#include "oneflow_core/base/status.h"

namespace oneflow {

inline constexpr int64_t kAlign = 64;  // bytes, of arenas and slots

// The error of a plan that no compiler writes.
inline absl::Status DamagedPlan(std::string_view where, std::string_view what) {
  return InputError(where, what, "the plan was edited or damaged; compile it again");
}

}  // namespace oneflow
