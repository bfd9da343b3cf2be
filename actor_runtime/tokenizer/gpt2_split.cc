#include "actor_runtime/tokenizer/gpt2_split.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace oneflow {
namespace {

enum class Kind : uint8_t { kLetter, kNumber, kOther, kSpace };

struct Character {
  Kind kind;
  size_t bytes;
};

constexpr bool IsSpace(int32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

Kind FindKind(int32_t c) {
  if (IsSpace(c)) return Kind::kSpace;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return Kind::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return Kind::kNumber;
    default: return Kind::kOther;
  }
}

// Most text is ASCII.
const std::array<Kind, 128>& AsciiKinds() {
  static const std::array<Kind, 128> kinds = [] {
    std::array<Kind, 128> table;
    for (int c = 0; c < 128; ++c) table[c] = FindKind(c);
    return table;
  }();
  return kinds;
}

Character CharacterAt(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 128) return {AsciiKinds()[first], 1};
  int32_t c = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const auto left = static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size() - at, 4));
  const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &c);
  if (length <= 0) return {Kind::kOther, 1};
  return {FindKind(c), static_cast<size_t>(length)};
}

size_t Contraction(std::string_view text, size_t at) {
  for (const std::string_view end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(at).starts_with(end)) return end.size();
  }
  return 0;
}

// \s+(?!\S)|\s+: the last space before a word belongs to it, or stands alone.
size_t SpacesEnd(std::string_view text, size_t begin) {
  size_t at = begin, last = begin;
  while (at < text.size()) {
    const Character c = CharacterAt(text, at);
    if (c.kind != Kind::kSpace) return last > begin ? last : at;
    last = at;
    at += c.bytes;
  }
  return at;
}

}  // namespace

size_t Gpt2WordEnd(std::string_view text, size_t begin) {
  if (text[begin] == '\'') {
    if (const size_t length = Contraction(text, begin)) return begin + length;
  }
  size_t at = begin;
  if (text[at] == ' ' && at + 1 < text.size()) ++at;
  const Kind kind = CharacterAt(text, at).kind;
  if (kind == Kind::kSpace) return SpacesEnd(text, begin);
  while (at < text.size()) {
    const Character c = CharacterAt(text, at);
    if (c.kind != kind) break;
    at += c.bytes;
  }
  return at;
}

size_t Gpt2SplitPoint(std::string_view text, size_t limit) {
  // ASCII is enough to find one often.
  const auto space = [&](size_t i) { return IsSpace(static_cast<unsigned char>(text[i]) & 0x7f); };
  const auto ascii = [&](size_t i) { return static_cast<unsigned char>(text[i]) < 128; };
  for (size_t at = std::min(limit, text.size()); at > 0; --at) {
    if (at == text.size() || (ascii(at) && space(at) && ascii(at - 1) && !space(at - 1))) return at;
  }
  return 0;
}

}  // namespace oneflow
