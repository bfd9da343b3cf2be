#include "training/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "training/tokenizer/byte_alphabet.h"
#include "training/tokenizer/code_set.h"

namespace oneflow {
namespace {

using SplitKind = SplitStep::Kind;
using Behavior = SplitStep::Behavior;
using Effect = PreTokenizer::SplitEffect;

struct Part {
  size_t begin, end;
  bool matched;
};

// Joins the parts of a text, matches and what is between them, as a behavior has it.
template <typename Emit>
class PartJoiner {
 public:
  PartJoiner(Behavior behavior, Emit emit) : behavior_(behavior), emit_(emit) {}

  void Add(const Part& part) {
    if (behavior_ == Behavior::kIsolated) return emit_(part.begin, part.end);
    if (behavior_ == Behavior::kRemoved) {
      if (!part.matched) emit_(part.begin, part.end);
      return;
    }
    // The first of all is joined with nothing.
    const bool joins = has_last_ && Joins(part);
    if (joins) {
      last_.end = part.end;
      // What a match was merged with takes no other.
      if (behavior_ == Behavior::kMergedWithNext)
        last_.matched = false;
      else
        last_.matched = part.matched;
      return;
    }
    Finish();
    last_ = part;
    has_last_ = true;
  }

  void Finish() {
    if (has_last_) emit_(last_.begin, last_.end);
    has_last_ = false;
  }

 private:
  bool Joins(const Part& part) const {
    switch (behavior_) {
      case Behavior::kContiguous: return part.matched == last_.matched;
      case Behavior::kMergedWithPrevious: return part.matched && !last_.matched;
      case Behavior::kMergedWithNext: return last_.matched && !part.matched;
      default: return false;
    }
  }

  const Behavior behavior_;
  Emit emit_;
  Part last_{0, 0, false};
  bool has_last_ = false;
};

// What splitting a text between two characters does to the words of a step.
Effect FindEffect(const SplitStep& step, int32_t left, int32_t right) {
  const SplitPattern& pattern = *step.pattern;
  if (pattern.MayNeedBoth(left, right)) return Effect::kOther;
  // Does a match end, or begin, at the split? Then words do.
  const bool ends = pattern.AlwaysMatches(left), begins = pattern.AlwaysMatches(right);
  switch (step.behavior) {
    case Behavior::kIsolated:
    case Behavior::kRemoved: return ends || begins ? Effect::kNone : Effect::kJoins;
    case Behavior::kMergedWithPrevious:
      return ends && !step.invert ? Effect::kNone : step.invert ? Effect::kOther : Effect::kJoins;
    case Behavior::kMergedWithNext:
      return begins && !step.invert ? Effect::kNone : step.invert ? Effect::kOther : Effect::kJoins;
    case Behavior::kContiguous:
      return (ends && !pattern.MayContain(right)) || (begins && !pattern.MayContain(left))
                 ? Effect::kNone
                 : Effect::kJoins;
  }
  return Effect::kOther;
}

}  // namespace

void PreTokenizer::SplitFrom(size_t step, std::string_view text, bool first,
                             const OnWord& on_word) const {
  if (step == steps_.size()) return on_word(text);
  const SplitStep& one = steps_[step];
  switch (one.kind) {
    case SplitKind::kSplit: return SplitByPattern(step, text, first, on_word);
    case SplitKind::kSpaceInFront:
      if (text.starts_with(' ')) return SplitFrom(step + 1, text, first, on_word);
      return SplitFrom(step + 1, " " + std::string(text), first, on_word);
    case SplitKind::kAlphabet: return SplitFrom(step + 1, WriteInAlphabet(text), first, on_word);
    case SplitKind::kWriteSpaces: {
      std::string written;
      const bool has_mark = text.starts_with(' ') || text.starts_with(one.mark);
      const bool adds = one.space == SpaceInFront::kUnlessThere ||
                        (one.space == SpaceInFront::kFirstUnlessThere && first);
      if (adds && !has_mark) written = one.mark;
      for (const char c : text) c == ' ' ? void(written += one.mark) : written.push_back(c);
      return SplitFrom(step + 1, written, first, on_word);
    }
  }
}

void PreTokenizer::SplitByPattern(size_t step, std::string_view text, bool first,
                                  const OnWord& on_word) const {
  const SplitStep& one = steps_[step];
  const auto emit = [&](size_t begin, size_t end) {
    if (begin == end) return;
    const std::string_view word = text.substr(begin, end - begin);
    step + 1 == steps_.size() ? on_word(word)
                              : SplitFrom(step + 1, word, first && begin == 0, on_word);
  };
  PartJoiner joiner(one.behavior, emit);
  size_t done = 0;
  one.pattern->FindMatches(text, [&](size_t begin, size_t end) {
    if (begin > done) joiner.Add({done, begin, one.invert});
    joiner.Add({begin, end, !one.invert});
    done = end;
  });
  if (done < text.size()) joiner.Add({done, text.size(), one.invert});
  joiner.Finish();
}

PreTokenizer::SplitEffect PreTokenizer::FindSplitEffect(int32_t* left, int32_t* right) const {
  // The right side alone is the begin of a text.
  const bool marks_first = std::any_of(steps_.begin(), steps_.end(), [](const SplitStep& step) {
    return step.space == SpaceInFront::kFirstUnlessThere;
  });
  for (const SplitStep& step : steps_) {
    switch (step.kind) {
      case SplitKind::kSplit: {
        const Effect effect = FindEffect(step, *left, *right);
        if (effect == Effect::kOther || (effect == Effect::kNone && marks_first && *right != ' ')) {
          return Effect::kOther;
        }
        if (effect == Effect::kNone) return effect;
        break;
      }
      case SplitKind::kSpaceInFront:
        if (*right != ' ') return Effect::kOther;
        break;
      case SplitKind::kAlphabet:
        if (*left >= 128 || *right >= 128) return Effect::kOther;
        *left = ByteAlphabet()[*left], *right = ByteAlphabet()[*right];
        break;
      case SplitKind::kWriteSpaces: {
        const int32_t mark = DecodeCharacter(step.mark).code;
        if (*left == ' ') *left = mark;
        if (*right == ' ') *right = mark;
        if (step.space != SpaceInFront::kNone && *right != mark) return Effect::kOther;
        break;
      }
    }
  }
  return Effect::kJoins;
}

}  // namespace oneflow
