// Reads the text of a line of JSON Lines.
//
//   ASSIGN_OR_RETURN(const std::string text, TextInJson(line, "text"));
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace oneflow {

// True if `line` is one value of JSON, in which Python's NaN and Infinity are numbers.
bool IsJson(std::string_view line);

// Finds the string under `key` in an object, "a.b" for that under b in the object under a; the last
// one where there are several, as other readers do. INVALID_ARGUMENT, a sentence without a place,
// where the line is no JSON, no object, has no such key, or another value there.
absl::StatusOr<std::string> TextInJson(std::string_view line, std::string_view key);

}  // namespace oneflow
