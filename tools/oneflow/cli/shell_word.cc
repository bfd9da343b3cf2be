#include "tools/oneflow/cli/shell_word.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace oneflow {

std::string ShellWord(const std::string& word) {
  const auto plain = [](char c) {
    return absl::ascii_isalnum(c) || std::string_view("_-./:=,+@%").find(c) != std::string::npos;
  };
  if (std::all_of(word.begin(), word.end(), plain)) return word;
  return "'" + absl::StrReplaceAll(word, {{"'", "'\\''"}}) + "'";
}

}  // namespace oneflow
