// A tokenizer of a sentencepiece .model file, by the model's own rules; or, where the files beside
// it say that it is Llama's, by those of transformers: no normalizer but the writing of spaces,
// added tokens found in the text, BOS before it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "training/tokenizer/tokenizer.h"
#include "training/tokenizer/tokenizer_settings.h"

namespace oneflow {

// Errors: those of ReadSentencePieceModel; an added token that is not supported.
absl::StatusOr<Tokenizer> LoadSentencePieces(const std::string& path,
                                             const TokenizerSettings& settings,
                                             const TokenizerOptions& options);

}  // namespace oneflow
