// The one place that converts between absl::string_view and std::string_view: Debian builds Abseil
// with its own string_view, so the two are different types.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace oneflow {

inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace oneflow
