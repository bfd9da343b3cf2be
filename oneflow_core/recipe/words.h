// The words that a value may be: "f32|bf16" of a row.
//
//   CheckWords("--dtype=fp16", "f32|bf16", "fp16")   // is not known; did you mean ...?
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace oneflow {

// The words that `value` of a row lists, those in brackets last; none where it lists none. The mark
// [@CLASS][:COUNTS] behind a word is not one of them.
std::vector<std::string> ListChoices(std::string_view value);

// "a, b or c".
std::string OrList(const std::vector<std::string>& words);

// An input error that names the nearest word where `value` lists words and `text` is none.
absl::Status CheckWords(std::string_view where, std::string_view value, std::string_view text);

}  // namespace oneflow
