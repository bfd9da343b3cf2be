// Readers of the files of a byte-level BPE vocabulary.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/tokenizer/bpe_vocabulary.h"

namespace oneflow {

// vocab.json (token -> id) and merges.txt (a pair a line, "#version" lines aside) of `folder`. A
// folder with an added_tokens.json that is not empty is refused.
absl::StatusOr<BpeVocabulary> ReadGpt2Folder(const std::string& folder);

// A tokenizer.json whose model is a BPE with the rules of bpe_pipeline.h. Others are refused. The
// ids that its post-processor adds around one text become begin and end of the vocabulary.
absl::StatusOr<BpeVocabulary> ReadTokenizerJson(const std::string& path);

}  // namespace oneflow
