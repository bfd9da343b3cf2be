// Reads normalizer, pre_tokenizer and decoder of a tokenizer.json, whatever steps they have.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "training/tokenizer/text_pipeline.h"

namespace oneflow {

// `json`: the content of `path`. `suffix`: what the model writes after the last character of a
// word, `of_characters`: words are of characters, whatever splits them. Errors
// name a step that is not supported, or is not valid.
absl::StatusOr<std::shared_ptr<const TextPipeline>> ReadTextPipeline(const std::string& path,
                                                                     const nlohmann::json& json,
                                                                     const std::string& suffix,
                                                                     bool of_characters);

}  // namespace oneflow
