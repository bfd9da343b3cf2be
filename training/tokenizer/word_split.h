// Splits a text into words before byte-pair encoding, by one of the patterns that models are
// published with:
//
//   GPT-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama 3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//            | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   Qwen 2   that of Llama 3 with \p{N}: each digit is a word
//
// A pattern is matched repeatedly from the left, with Unicode's letters (L*), numbers (N*) and
// White_Space. A byte that is no part of valid UTF-8 counts as a character of no class. Every byte
// belongs to exactly one word, so words can be encoded one by one.
//
// It is not an engine of regular expressions: the patterns are matched by hand. Others are
// split_pattern.h's.
//
//   const WordPattern& words = kLlama3Words;
//   for (size_t at = 0; at < text.size();) { size_t end = WordEnd(words, text, at); ...; at = end;
//   }
#pragma once

#include <cstddef>
#include <string_view>

namespace oneflow {

struct WordPattern {
  std::string_view name, regex;
  // The rules of Llama 3's pattern: contractions in any case, any one character before letters,
  // line ends after punctuation and at the end of white space, numbers without a space before.
  bool line_ends;
  size_t most_digits;  // of a word; 0: no limit
};

extern const WordPattern kGpt2Words, kLlama3Words, kQwen2Words;

// The pattern that is written so; null if it is not one of the three.
const WordPattern* FindWordPattern(std::string_view regex);

// The end of the word that begins at `begin` < text.size().
size_t WordEnd(const WordPattern& pattern, std::string_view text, size_t begin);

// The largest position <= limit that no word spans, as is known from the two characters around it,
// which are ASCII: both sides can be split separately. 0 if there is none.
size_t WordSplitPoint(const WordPattern& pattern, std::string_view text, size_t limit);

// The bytes of white space at the beginning and at the end of `text` (\s of regular expressions).
size_t SpaceAtBegin(std::string_view text);
size_t SpaceAtEnd(std::string_view text);
// True if `text` begins, or ends, with a character of a word (\w of regular expressions).
bool BeginsWithWord(std::string_view text);
bool EndsWithWord(std::string_view text);

}  // namespace oneflow
