// SplitPattern: finds the matches of a split regex in a text, as Hugging Face's tokenizers does:
// from the left, each after the end of the one before.
//
//   ASSIGN_OR_RETURN(SplitPattern pattern, SplitPattern::Parse(R"(\p{N}{1,3})"));
//   pattern.FindMatches(text, [&](size_t begin, size_t end) { ... });
//
// A text is translated into kinds of characters (regex_program.h), and PCRE2 matches these. So
// invalid UTF-8 cannot reach it, and sets are exactly those of unicode_sets.h, whatever version of
// Unicode PCRE2 has. From a match on that takes it too many steps, RegexProgram finds the matches
// of a text instead. The patterns of word_split.h are matched there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "training/tokenizer/regex_program.h"
#include "training/tokenizer/split_regex.h"
#include "training/tokenizer/word_split.h"

namespace oneflow {

// Not thread-safe: it reuses memory.
class SplitPattern {
 public:
  // Errors say what is not supported; they name no file. `by_hand`: patterns of word_split.h are
  // matched there.
  static absl::StatusOr<SplitPattern> Parse(std::string_view regex, bool by_hand = true);
  static absl::StatusOr<SplitPattern> Make(const SplitRegex& regex);

  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // Calls fn(begin, end) for each match. A match may be empty, but no two end at one position. `fn`
  // must not use this pattern.
  template <typename Fn>
  void FindMatches(std::string_view text, Fn fn) const {
    if (words_ != nullptr) {
      for (size_t at = 0; at < text.size();) {
        const size_t end = WordEnd(*words_, text, at);
        fn(at, end);
        at = end;
      }
      return;
    }
    Translate(text);
    size_t from = 0, last = kNone, begin = 0, end = 0;
    while (from <= kinds_.size() && Find(from, &begin, &end)) {
      if (begin == end && end == last) {
        ++from;
        continue;
      }
      from = last = end;
      fn(offsets_.empty() ? begin : offsets_[begin], offsets_.empty() ? end : offsets_[end]);
    }
  }

  // As RegexProgram's: of two characters between which a text is split.
  bool MayNeedBoth(int32_t left, int32_t right) const;
  bool AlwaysMatches(int32_t code) const;
  // True if a match may begin or end in this character or lead over it.
  bool MayContain(int32_t code) const;

 private:
  struct Compiled;
  static constexpr size_t kNone = std::string_view::npos;

  SplitPattern(CharacterKinds kinds, RegexProgram program);
  void Translate(std::string_view text) const;
  bool Find(size_t from, size_t* begin, size_t* end) const;

  const WordPattern* words_ = nullptr;
  CharacterKinds kinds_of_;
  RegexProgram program_;
  std::unique_ptr<Compiled> compiled_;  // by PCRE2
  KindSet single_;                      // the regex is one character of these
  bool is_single_ = false;
  // The text that is searched.
  mutable std::string kinds_;
  // What was asked of the program: by kinds.
  mutable absl::flat_hash_map<int, bool> needs_, matches_;
  mutable std::vector<size_t> offsets_;
  mutable bool is_hard_ = false;  // PCRE2 reached a limit in it
};

}  // namespace oneflow
