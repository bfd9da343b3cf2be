// The configuration of a model in a Hugging Face folder: config.json and generation_config.json.
//
//   ASSIGN_OR_RETURN(const HuggingFaceConfig config, ReadHuggingFaceConfig("models/llama"));
//   config.model.layers(), config.model.groups(), config.end_ids, ...
//
// The types of models are rows (model_types.h). Keys of older and newer releases of transformers
// are understood: rope_theta with rope_scaling, or rope_parameters, or both where they say the
// same; layer_types or a pattern; torch_dtype or dtype. A key that changes what the model computes,
// with a value that has no equivalent here, is refused by name and value: a model is read right or
// not at all. Keys that a type does not have are not read by transformers either, and are ignored.
// Of a model with parts for images, the text part is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"

namespace oneflow {

struct HuggingFaceConfig {
  std::string model_type;  // "gpt2", "llama", "mistral", "mixtral", "qwen2", ...
  // All numbers of its family that config.json has: not those that act in training alone.
  // `sequence` is the longest.
  proto::Model model;
  std::vector<int64_t> end_ids;  // tokens that end a text
  std::optional<int64_t> begin_id;
  std::string dtype;  // "f32", "bf16", "f16"; empty: not said
  // Blocks behind the last that predict later tokens, of which files may have tensors. The model
  // has the first if it has `next_tokens`.
  int64_t further_blocks = 0;

  bool is_gpt2() const { return model.family() == "gpt"; }
};
// Names of classes of blocks do not matter.
bool operator==(const HuggingFaceConfig& a, const HuggingFaceConfig& b);

// The model without the numbers of which config.json says nothing.
proto::Model ClearTraining(proto::Model model);

// True of a model_type that this reads: "gpt2", "llama", ...
bool IsHuggingFaceFamily(std::string_view model_type);

// `where` is the file's name in errors. `generation`, where it is not empty, is the text of
// generation_config.json, whose ids come first.
absl::StatusOr<HuggingFaceConfig> ParseHuggingFaceConfig(std::string_view config,
                                                         const std::string& where,
                                                         std::string_view generation = "",
                                                         const std::string& where_generation = "");

// Reads DIR/config.json and, where it is there, DIR/generation_config.json.
absl::StatusOr<HuggingFaceConfig> ReadHuggingFaceConfig(const std::string& dir);

// The texts of config.json and generation_config.json, for any release of transformers since the
// family's first. Parsed, they give `config`.
std::string ConfigText(const HuggingFaceConfig& config);
std::string GenerationConfigText(const HuggingFaceConfig& config);

}  // namespace oneflow
