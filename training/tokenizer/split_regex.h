// SplitRegex: a regular expression of a tokenizer.json, parsed. The syntax is Oniguruma's, which
// Hugging Face's tokenizers uses: sets in sets and their intersections ([\p{L}&&[^\p{Han}]]),
// possessive quantifiers, (?i:...), atomic groups, look-ahead, look-behind.
//
//   ASSIGN_OR_RETURN(const SplitRegex regex, ParseSplitRegex(R"(\p{N}{1,3}|\s+(?!\S))"));
//
// It does not match: SplitPattern does. Every atom of it is a set of characters.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "training/tokenizer/code_set.h"

namespace oneflow {

struct SplitRegex {
  struct Node {
    enum class Kind { kSequence, kChoice, kSet, kRepeat, kAtomic, kLook };
    enum class Greed { kGreedy, kLazy, kPossessive };

    Kind kind = Kind::kSequence;
    std::vector<Node> parts;       // one, of kRepeat, kAtomic and kLook
    size_t set = 0;                // kSet: index of `sets`
    int least = 0, most = 0;       // kRepeat; most < 0: no limit
    Greed greed = Greed::kGreedy;  // kRepeat
    bool negative = false;         // kLook
    int behind = 0;                // kLook: characters of a look-behind; 0: look-ahead
  };

  Node root;
  std::vector<CodeSet> sets;
};

// Errors say what of the pattern is not supported or not valid; they name no file.
absl::StatusOr<SplitRegex> ParseSplitRegex(std::string_view pattern);

// The expression that matches `text` itself, and the one of a character of `set`.
SplitRegex RegexOfText(std::string_view text);
SplitRegex RegexOfSet(CodeSet set);

}  // namespace oneflow
