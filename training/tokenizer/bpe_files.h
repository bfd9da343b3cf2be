// Readers of the files of a byte-level BPE vocabulary.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "training/tokenizer/bpe_vocabulary.h"
#include "training/tokenizer/tokenizer_settings.h"

namespace oneflow {

// vocab.json (token -> id) and merges.txt (a pair a line, "#version" lines aside) of `folder`, by
// the rules of GPT-2, or of Qwen 2 where `settings` say so. Tokens of an added_tokens.json that the
// settings do not describe are refused.
absl::StatusOr<BpeVocabulary> ReadGpt2Folder(const std::string& folder,
                                             const TokenizerSettings& settings);

// A tokenizer.json whose model is a BPE with the rules of bpe_pipeline.h. Others are refused. The
// ids that its post-processor adds around one text become begin and end of the vocabulary, unless
// `settings` say whether BOS and EOS are added.
absl::StatusOr<BpeVocabulary> ReadTokenizerJson(const std::string& path,
                                                const TokenizerSettings& settings);

// The added tokens that `added` lists, as the key "added_tokens" of a tokenizer.json. Errors name
// the file `path`.
absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const std::string& path,
                                                         const nlohmann::json& added);

}  // namespace oneflow
