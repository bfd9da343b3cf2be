// How GPT-2 cuts text into words before byte-pair encoding: the pattern
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// matched again and again from the left, with Unicode's letters (L*), numbers (N*) and White_Space.
// A byte that is no part of valid UTF-8 counts as a character of the third kind. Every byte belongs
// to exactly one word, so words can be encoded one by one.
//
//   for (size_t at = 0; at < text.size();) { size_t end = Gpt2WordEnd(text, at); ...; at = end; }
#pragma once

#include <cstddef>
#include <string_view>

namespace oneflow {

// Where the word that begins at `begin` < text.size() ends.
size_t Gpt2WordEnd(std::string_view text, size_t begin);

// The largest position <= limit at which white space follows something else: words never reach
// over it, so both sides can be split by themselves. 0 if there is none.
size_t Gpt2Cut(std::string_view text, size_t limit);

}  // namespace oneflow
