// PreTokenizer: the pre_tokenizer of a tokenizer.json: steps that split a text into words, each of
// which splits the words of the one before.
//
//   PreTokenizer words;
//   words.Add({.kind = SplitStep::Kind::kSplit, .pattern = digits});
//   words.Add({.kind = SplitStep::Kind::kByteLevel});
//   words.Split(text, /*first=*/true, [&](std::string_view word) { ... });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "training/tokenizer/split_pattern.h"
#include "training/tokenizer/write_pieces.h"

namespace oneflow {

struct SplitStep {
  enum class Kind {
    kSplit,
    kSpaceInFront,  // a space before each word that does not begin with one
    kAlphabet,      // bytes become characters of GPT-2's alphabet
    kWriteSpaces,   // spaces become `mark`, and one is put before a word, as `space` says
  };
  // What becomes of the matches of a pattern and of the text between them.
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

  Kind kind = Kind::kSplit;
  std::shared_ptr<const SplitPattern> pattern;  // kSplit
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // the text between the matches counts as the matches
  std::string mark;     // kWriteSpaces
  SpaceInFront space = SpaceInFront::kNone;
};

// Not thread-safe, because SplitPattern is not.
class PreTokenizer {
 public:
  using OnWord = std::function<void(std::string_view word)>;

  void Add(SplitStep step) { steps_.push_back(std::move(step)); }
  const std::vector<SplitStep>& steps() const { return steps_; }

  // Calls on_word for each word, none of which is empty. `first`: the text is the begin of all.
  void Split(std::string_view text, bool first, const OnWord& on_word) const {
    if (!text.empty()) SplitFrom(0, text, first, on_word);
  }

  // Whether a text that is split between `left` and `right` has the words of its two sides.
  enum class SplitEffect {
    kNone,   // it has
    kJoins,  // it has, where a word that leads over the split may be split there
    kOther,  // it has not, or that is not known
  };
  // Both characters are changed to what they become.
  SplitEffect FindSplitEffect(int32_t* left, int32_t* right) const;

 private:
  void SplitFrom(size_t step, std::string_view text, bool first, const OnWord& on_word) const;
  void SplitByPattern(size_t step, std::string_view text, bool first, const OnWord& on_word) const;

  std::vector<SplitStep> steps_;
};

}  // namespace oneflow
