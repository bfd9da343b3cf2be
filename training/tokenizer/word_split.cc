#include "training/tokenizer/word_split.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "training/tokenizer/code_set.h"
#include "training/tokenizer/unicode_sets.h"

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
  switch (FindCategory(c)) {
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
  const DecodedCharacter c = DecodeCharacter(text.substr(at));
  return {c.code == kNoCharacter ? Kind::kOther : FindKind(c.code), c.bytes};
}

// The position of the last character of `text`, which is not empty.
size_t LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
    --at;
  return at;
}

// The first character of `text`, which is not empty.
bool IsWordCharacter(std::string_view text) {
  return RustWordSet().Contains(DecodeCharacter(text).code);
}

constexpr std::string_view kContractions[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

char LowerAscii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// True where `text` begins with `word`, which is ASCII.
bool BeginsWith(std::string_view text, std::string_view word, bool any_case) {
  if (!any_case) return text.starts_with(word);
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(),
                    [](char a, char b) { return a == LowerAscii(b); });
}

size_t Contraction(std::string_view text, bool any_case) {
  for (const std::string_view end : kContractions) {
    if (BeginsWith(text, end, any_case)) return end.size();
  }
  // Unicode's long s is an s in another case.
  constexpr std::string_view kLongS = "'\u017f";
  return any_case && text.starts_with(kLongS) ? kLongS.size() : 0;
}

// The end of the characters of `kind` from `at` on, `most` of them at most (0: no limit).
size_t RunEnd(std::string_view text, size_t at, Kind kind, size_t most = 0) {
  for (size_t n = 0; at < text.size() && (most == 0 || n < most); ++n) {
    const Character c = CharacterAt(text, at);
    if (c.kind != kind) break;
    at += c.bytes;
  }
  return at;
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

size_t LineEndsEnd(std::string_view text, size_t at) {
  while (at < text.size() && IsLineEnd(text[at])) ++at;
  return at;
}

// \s+(?!\S)|\s+: the last space before a word belongs to it, or stands alone. With `line_ends`,
// \s*[\r\n]+ comes first: white space up to its last line end.
size_t SpacesEnd(std::string_view text, size_t begin, bool line_ends) {
  size_t at = begin, last = begin, after_line = begin;
  while (at < text.size()) {
    const Character c = CharacterAt(text, at);
    if (c.kind != Kind::kSpace) break;
    last = at;
    at += c.bytes;
    if (line_ends && IsLineEnd(text[last])) after_line = at;
  }
  if (after_line > begin) return after_line;
  return at < text.size() && last > begin ? last : at;
}

size_t Gpt2WordEnd(const WordPattern& pattern, std::string_view text, size_t begin) {
  if (const size_t length = Contraction(text.substr(begin), /*any_case=*/false)) {
    return begin + length;
  }
  const size_t at = text[begin] == ' ' && begin + 1 < text.size() ? begin + 1 : begin;
  const Kind kind = CharacterAt(text, at).kind;
  if (kind == Kind::kSpace) return SpacesEnd(text, begin, /*line_ends=*/false);
  return RunEnd(text, at, kind, kind == Kind::kNumber ? pattern.most_digits : 0);
}

size_t LineEndsWordEnd(const WordPattern& pattern, std::string_view text, size_t begin) {
  if (const size_t length = Contraction(text.substr(begin), /*any_case=*/true)) {
    return begin + length;
  }
  const Character first = CharacterAt(text, begin);
  if (first.kind == Kind::kLetter) return RunEnd(text, begin, Kind::kLetter);
  if (first.kind == Kind::kNumber) return RunEnd(text, begin, Kind::kNumber, pattern.most_digits);
  const size_t next = begin + first.bytes;
  const bool more = next < text.size();
  const Kind second = more ? CharacterAt(text, next).kind : Kind::kSpace;
  if (more && second == Kind::kLetter && !IsLineEnd(text[begin])) {
    return RunEnd(text, next, Kind::kLetter);
  }
  if (first.kind == Kind::kOther || (text[begin] == ' ' && second == Kind::kOther)) {
    return LineEndsEnd(text, RunEnd(text, next, Kind::kOther));
  }
  return SpacesEnd(text, begin, /*line_ends=*/true);
}

}  // namespace

const WordPattern kGpt2Words = {
    "GPT-2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", false,
    0};
const WordPattern kLlama3Words = {
    "Llama 3",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    true, 3};
const WordPattern kQwen2Words = {"Qwen 2",
                                 R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                 R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                 true, 1};

const WordPattern* FindWordPattern(std::string_view regex) {
  for (const WordPattern* one : {&kGpt2Words, &kLlama3Words, &kQwen2Words}) {
    if (one->regex == regex) return one;
  }
  return nullptr;
}

size_t WordEnd(const WordPattern& pattern, std::string_view text, size_t begin) {
  return pattern.line_ends ? LineEndsWordEnd(pattern, text, begin)
                           : Gpt2WordEnd(pattern, text, begin);
}

size_t WordSplitPoint(const WordPattern& pattern, std::string_view text, size_t limit) {
  // White space after another character; ASCII is enough to find one often. A line end may belong
  // to the punctuation before it.
  const auto ascii = [&](size_t i) { return static_cast<unsigned char>(text[i]) < 128; };
  const auto kind = [&](size_t i) { return AsciiKinds()[static_cast<unsigned char>(text[i])]; };
  for (size_t at = std::min(limit, text.size()); at > 0; --at) {
    if (at == text.size()) return at;
    if (!ascii(at) || !ascii(at - 1) || kind(at) != Kind::kSpace || kind(at - 1) == Kind::kSpace) {
      continue;
    }
    if (pattern.line_ends && IsLineEnd(text[at]) && kind(at - 1) == Kind::kOther) continue;
    return at;
  }
  return 0;
}

size_t SpaceAtBegin(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character character = CharacterAt(text, at);
    if (character.kind != Kind::kSpace) break;
    at += character.bytes;
  }
  return at;
}

size_t SpaceAtEnd(std::string_view text) {
  size_t at = text.size();
  while (at > 0) {
    const size_t last = LastCharacter(text.substr(0, at));
    if (CharacterAt(text, last).kind != Kind::kSpace) break;
    at = last;
  }
  return text.size() - at;
}

bool BeginsWithWord(std::string_view text) { return !text.empty() && IsWordCharacter(text); }

bool EndsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(text.substr(LastCharacter(text)));
}

}  // namespace oneflow
