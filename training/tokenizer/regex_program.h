// RegexProgram: a split regex as instructions over kinds of characters, for matching without
// pathological time, and for questions about where a text may be split.
//
// Characters that no set of the regex tells apart are of one kind, a byte: a text is translated
// into its kinds once, and all matching is of bytes, by sets of 256 bits.
//
//   ASSIGN_OR_RETURN(const CharacterKinds kinds, CharacterKinds::Make(regex.sets));
//   const RegexProgram program(regex, kinds);
//   size_t end;
//   size_t begin = program.Find(text_of_kinds, from, &end);
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "training/tokenizer/split_regex.h"

namespace oneflow {

using KindSet = std::bitset<256>;

class CharacterKinds {
 public:
  // Error: more than 256 kinds.
  static absl::StatusOr<CharacterKinds> Make(const std::vector<CodeSet>& sets);

  uint8_t Find(int32_t code) const {
    return code < 128 ? ascii_[code] : pages_[page_of_[code >> 8]][code & 255];
  }
  // By set of the regex: its kinds.
  const std::vector<KindSet>& sets() const { return sets_; }

  // Appends the kinds of `text`. `offsets`: the position of each character and of the end, where
  // not all of them are one byte long; else empty.
  void Translate(std::string_view text, std::string* kinds, std::vector<size_t>* offsets) const;

 private:
  std::vector<KindSet> sets_;
  std::array<uint8_t, 128> ascii_;
  std::vector<uint16_t> page_of_;  // by code / 256
  std::vector<std::array<uint8_t, 256>> pages_;
};

class RegexProgram {
 public:
  RegexProgram(const SplitRegex& regex, const CharacterKinds& kinds);

  // False where repetitions make it longer than can be handled.
  bool fits() const { return code_.size() <= kMostInstructions; }

  // The begin of the first match in `text`, kinds of characters, at `from` or later, and its end.
  // npos: none. The match is the one that a backtracking matcher prefers; the time is linear in the
  // text but for what look-around and atomic groups read again.
  size_t Find(std::string_view text, size_t from, size_t* end) const;

  // True if splitting a text between two characters of these kinds, `left` and `right`, might
  // change the matches that do not span the split, or break one that does.
  bool MayNeedBoth(uint8_t left, uint8_t right) const;
  // True if a match begins at every character of this kind that is in no earlier match.
  bool AlwaysMatches(uint8_t kind) const;

 private:
  static constexpr size_t kMostInstructions = 20000;

  enum class Op : uint8_t { kSet, kSplit, kJump, kAtomic, kAtomicEnd, kLook, kAccept };
  struct Instruction {
    Op op;
    size_t next = 0;   // kSplit: what is preferred; kAtomic and kLook: what follows
    size_t other = 0;  // kSplit: the alternative; kAtomic and kLook: the body
    size_t set = 0;
    bool negative = false;
    int behind = 0;
  };
  // What can be reached from an instruction without reading a character.
  struct Reached {
    std::vector<size_t> sets, looks;
    bool accepts = false;
  };
  struct Run;

  size_t Add(const Instruction& instruction);
  void Compile(const SplitRegex::Node& node);
  void CompileRepeat(const SplitRegex::Node& node);
  Reached Reach(size_t from) const;
  bool LookNeedsBoth(const Instruction& look, uint8_t left, uint8_t right) const;

  std::vector<KindSet> sets_;
  std::vector<Instruction> code_;
  std::vector<Reached> after_;  // by instruction that is a set: what may follow it
  Reached first_;
};

}  // namespace oneflow
