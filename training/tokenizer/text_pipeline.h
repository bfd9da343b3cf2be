// TextPipeline: what a tokenizer.json does with a text before and after its model: normalizer,
// pre-tokenizer and decoder.
#pragma once

#include <string>
#include <vector>

#include "training/tokenizer/pre_tokenizer.h"
#include "training/tokenizer/text_normalizer.h"

namespace oneflow {

// A step from a token, as it is written in a word, to its text.
struct DecoderStep {
  enum class Kind { kReplace, kByteFallback, kAlphabet };
  Kind kind = Kind::kReplace;
  std::string from, to;  // kReplace
};

struct TextPipeline {
  TextNormalizer normalizer;
  PreTokenizer words;
  bool of_bytes = false;  // words begin as their bytes, which tokens write in GPT-2's alphabet
  std::vector<DecoderStep> decoder;
  std::string text;  // all steps as the file has them, for the hash
};

}  // namespace oneflow
