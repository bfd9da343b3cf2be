// The atoms of a regular expression in Oniguruma's syntax: escapes, and classes in brackets.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/tokenizer/code_set.h"

namespace oneflow {

// The rest of a pattern, read character by character.
class RegexReader {
 public:
  explicit RegexReader(std::string_view pattern) : rest_(pattern) {}

  bool AtEnd() const { return rest_.empty(); }
  int32_t Peek() const { return rest_.empty() ? -1 : DecodeCharacter(rest_).code; }
  int32_t Next() {
    const DecodedCharacter c = DecodeCharacter(rest_);
    rest_.remove_prefix(c.bytes);
    return c.code;
  }
  bool Take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Skip(size_t bytes) { rest_.remove_prefix(bytes); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

struct RegexItem {
  CodeSet set;
  std::optional<int32_t> literal;  // it is this character
};

// What is wrong with a pattern, without its file.
absl::Status RegexError(std::string_view what);

// The next character or escape.
absl::StatusOr<RegexItem> ParseRegexItem(RegexReader* reader);
// The class whose "[" is next. `any_case`: with the characters that differ in case alone.
absl::StatusOr<CodeSet> ParseRegexClass(RegexReader* reader, bool any_case);

}  // namespace oneflow
