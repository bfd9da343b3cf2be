// CodeSet: a set of characters, as a class of a regular expression has them.
//
//   CodeSet set;
//   set.Add('a', 'z');
//   set = set.Without(other).Or(CodeSet::One('_'));
//
// Invariant: the ranges are sorted, disjoint and not adjacent.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace oneflow {

// A byte that is no part of valid UTF-8 counts as this character, which has no property: it is only
// in complements.
inline constexpr int32_t kNoCharacter = 0x110000;

class CodeSet {
 public:
  struct Range {
    int32_t first, last;
    auto operator<=>(const Range&) const = default;
  };

  CodeSet() = default;
  CodeSet(std::initializer_list<Range> ranges) {
    for (const Range& range : ranges) Add(range.first, range.last);
  }
  static CodeSet One(int32_t c) { return {{c, c}}; }
  static CodeSet All() { return {{0, kNoCharacter}}; }

  void Add(int32_t first, int32_t last);
  bool Contains(int32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

  CodeSet Or(const CodeSet& other) const;
  CodeSet And(const CodeSet& other) const;
  CodeSet Without(const CodeSet& other) const { return And(other.Complement()); }
  CodeSet Complement() const;
  bool operator==(const CodeSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

// The first character of `text`, which is not empty, and its bytes; kNoCharacter and 1 where no
// valid UTF-8 begins.
struct DecodedCharacter {
  int32_t code;
  uint32_t bytes;
};

inline DecodedCharacter DecodeCharacter(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto more = [&](size_t i) { return i < text.size() && (at(i) & 0xc0) == 0x80; };
  const int32_t first = at(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xc2) return {kNoCharacter, 1};
  if (!more(1)) return {kNoCharacter, 1};
  const int32_t second = at(1) & 0x3f;
  if (first < 0xe0) return {(first & 0x1f) << 6 | second, 2};
  if (!more(2)) return {kNoCharacter, 1};
  const int32_t third = at(2) & 0x3f;
  if (first < 0xf0) {
    const int32_t code = (first & 0x0f) << 12 | second << 6 | third;
    const bool valid = code >= 0x800 && (code < 0xd800 || code > 0xdfff);
    return valid ? DecodedCharacter{code, 3} : DecodedCharacter{kNoCharacter, 1};
  }
  if (first > 0xf4 || !more(3)) return {kNoCharacter, 1};
  const int32_t code = (first & 0x07) << 18 | second << 12 | third << 6 | (at(3) & 0x3f);
  const bool valid = code >= 0x10000 && code < kNoCharacter;
  return valid ? DecodedCharacter{code, 4} : DecodedCharacter{kNoCharacter, 1};
}

// Appends the UTF-8 of a character.
void AppendCharacter(int32_t code, std::string* text);

}  // namespace oneflow
