// GPT-2's split of a text into words before byte-pair encoding: the pattern
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// matched repeatedly from the left, with Unicode's letters (L*), numbers (N*) and White_Space. A
// byte that is no part of valid UTF-8 counts as a character of the third kind. Every byte belongs
// to exactly one word, so words can be encoded one by one.
//
//   for (size_t at = 0; at < text.size();) { size_t end = Gpt2WordEnd(text, at); ...; at = end; }
#pragma once

#include <cstddef>
#include <string_view>

namespace oneflow {

// The end of the word that begins at `begin` < text.size().
size_t Gpt2WordEnd(std::string_view text, size_t begin);

// The largest position <= limit at which white space follows another character: no word spans it,
// so both sides can be split separately. 0 if there is none.
size_t Gpt2SplitPoint(std::string_view text, size_t limit);

}  // namespace oneflow
