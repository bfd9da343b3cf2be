// The rules of a tokenizer.json: how it normalizes a text and splits it into words.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "training/tokenizer/bpe_vocabulary.h"

namespace oneflow {

// The member `key` of `object`; null where it is absent.
const nlohmann::json& FindField(const nlohmann::json& object, const char* key);

// The steps of a pipeline, those of a "Sequence" one by one, however deep: none for null or an
// empty one. `key`: of its list, "normalizers".
std::vector<const nlohmann::json*> ListSteps(const nlohmann::json& step, const char* key);

// The error of a tokenizer.json that does what is not supported.
absl::Status UnsupportedTokenizer(const std::string& path, const std::string& what);

// Reads model, normalizer and pre_tokenizer of `json`, the content of `path`. Supported are
// byte-level BPE with a known pattern (word_split.h) and, optionally, NFC and a space in front; and
// BPE with byte fallback that writes spaces as U+2581, as Llama 2 and Mistral do. Others are
// refused; the error names the unsupported feature.
absl::StatusOr<BpeRules> ReadBpeRules(const std::string& path, const nlohmann::json& json);

}  // namespace oneflow
