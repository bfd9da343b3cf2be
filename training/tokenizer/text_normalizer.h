// TextNormalizer: the normalizer of a tokenizer.json: steps that change a text before it is split
// into words.
//
//   TextNormalizer normalizer;
//   normalizer.Add({.kind = NormalizerStep::Kind::kLowercase});
//   const std::string text = normalizer.Normalize("The");
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/tokenizer/normal_form.h"
#include "training/tokenizer/split_pattern.h"

namespace oneflow {

struct NormalizerStep {
  enum class Kind {
    kForm,  // a normal form of Unicode
    kLowercase,
    kStripAccents,  // without combining marks
    kStrip,         // without white space at its ends
    kPrepend,       // `text` before a text that is not empty
    kReplace,       // matches of `pattern` by `text`
    kByteLevel,     // bytes become characters of GPT-2's alphabet
  };
  Kind kind = Kind::kForm;
  NormalForm form = NormalForm::kNfc;
  bool left = true, right = true;  // kStrip
  std::string text;
  std::shared_ptr<const SplitPattern> pattern;  // kReplace
  std::string literal;  // kReplace: what the pattern finds, where it is text
};

// Not thread-safe, because SplitPattern is not.
class TextNormalizer {
 public:
  void Add(NormalizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }

  std::string Normalize(std::string_view text) const;

  // True if a text that is split between `left` and `right`, ASCII characters that no character
  // beyond ASCII follows, is normalized as its two sides are. Both are changed to what they become.
  bool KeepsSplit(int32_t* left, int32_t* right) const;
  // True if it puts something before every text.
  bool prepends() const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace oneflow
