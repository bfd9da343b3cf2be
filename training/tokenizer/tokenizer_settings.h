// TokenizerSettings: what the files beside those of a tokenizer say of it: tokenizer_config.json,
// special_tokens_map.json, and the ids of a model's config.json and generation_config.json.
//
//   ASSIGN_OR_RETURN(const TokenizerSettings settings, ReadTokenizerSettings("models/llama"));
//   if (settings.add_bos.value_or(settings.IsLlama())) ...
//
// All of it is optional. Keys are read as transformers 4.57 does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace oneflow {

struct TokenizerSettings {
  std::string path;                                                  // of tokenizer_config.json
  nlohmann::ordered_json config = nlohmann::ordered_json::object();  // what it holds
  std::string bytes;                                                 // the same; empty: no file

  std::string class_name;  // "LlamaTokenizer"
  std::string model_type;  // "mistral", of config.json
  std::optional<bool> add_bos, add_eos, add_prefix_space, legacy;
  std::string bos, eos;                            // these tokens; empty: not said
  std::optional<int64_t> bos_id;                   // of the model
  std::vector<int64_t> eos_ids;                    // of the model
  nlohmann::json added = nlohmann::json::array();  // tokens, as tokenizer.json lists its own

  // The tokenizer's class is Llama's or Qwen 2's; where none is said, that of the type of model.
  bool IsLlama() const;
  bool IsQwen() const;

  // The text that must stay beside the tokenizer's files for them to be read alike elsewhere: the
  // bytes of tokenizer_config.json, with the class of the model's type in it where `needs_class`,
  // and with the token that ends a text where the model's files alone say it (`end_of_text`, else
  // empty). Empty: nothing.
  std::string TextToKeep(bool needs_class, const std::string& end_of_text) const;
};

// Files that are not there say nothing. Errors: a tokenizer_config.json that is no JSON object.
absl::StatusOr<TokenizerSettings> ReadTokenizerSettings(const std::string& folder);

}  // namespace oneflow
