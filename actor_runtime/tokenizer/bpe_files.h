// Readers of the files of a byte-level BPE vocabulary.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/tokenizer/bpe_vocabulary.h"

namespace oneflow {

// vocab.json (token -> id) and merges.txt (a pair a line, "#version" lines aside) of `folder`. A
// folder with an added_tokens.json that is not empty is refused.
absl::StatusOr<BpeVocabulary> ReadGpt2Folder(const std::string& folder);

// A tokenizer.json whose model is a byte-level BPE that splits text as GPT-2 does. Others are
// refused; the error names the unsupported feature: a normalizer, another pre-tokenizer, prefixes,
// ... The ids that its post-processor adds around one text become begin and end of the vocabulary.
absl::StatusOr<BpeVocabulary> ReadTokenizerJson(const std::string& path);

}  // namespace oneflow
