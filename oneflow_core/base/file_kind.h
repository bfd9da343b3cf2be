// Recognises the kinds of our files by their bytes, so that an error can name a file that was given
// in place of another.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace oneflow {

// The first bytes of a plan in its binary form.
inline constexpr std::string_view kPlanMagic("\x89oneflow", 8);

// The kinds of files that a user gives: "graph", "plan", "cluster", "pipeline order" or
// "training configuration", as text or, for a plan, binary. Empty: none of them, or one with
// mistakes.
std::string_view FileKind(std::string_view bytes);

// An input error if the bytes are of a known kind other than `noun`: "FILE: is a graph, and no
// plan; --graph takes it, here give what `oneflow compile` writes".
absl::Status RefuseOtherKind(std::string_view bytes, std::string_view file, std::string_view noun);

}  // namespace oneflow
