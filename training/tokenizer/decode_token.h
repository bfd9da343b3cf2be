// The text of a token whose vocabulary is of characters.
#pragma once

#include <string>

#include "training/tokenizer/bpe_vocabulary.h"

namespace oneflow {

// By the decoder of `rules`; without one, as sentencepiece writes it: U+2581 is a space, "<0x41>" a
// byte.
std::string DecodeToken(const BpeRules& rules, const std::string& token);

}  // namespace oneflow
