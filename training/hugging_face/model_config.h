// The configuration of a model in a Hugging Face folder: config.json and generation_config.json.
//
//   ASSIGN_OR_RETURN(const HuggingFaceConfig config, ReadHuggingFaceConfig("models/llama"));
//   config.layers, config.groups, config.scaling, ...
//
// The families are gpt2, llama, mistral, mixtral, qwen2, qwen3 and qwen3_moe. Keys of older and
// newer releases of transformers are understood: rope_theta with rope_scaling, or rope_parameters,
// or both where they say the same; torch_dtype or dtype. A key that changes what the model
// computes, with a value that has no equivalent here, is refused by name and value: a model is read
// right or not at all. Keys that these families do not have are not read by transformers either,
// and are ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

// The scaling of rotary frequencies of Llama 3.1.
struct RotaryScalingConfig {
  double factor = 1, low_frequency_factor = 1, high_frequency_factor = 1;
  int64_t original_positions = 0;
  bool operator==(const RotaryScalingConfig&) const = default;
};

struct HuggingFaceConfig {
  std::string model_type;  // "gpt2", "llama", "mistral", "mixtral", "qwen2", ...
  int64_t vocab = 0;
  int64_t layers = 0, hidden = 0, inner = 0;    // inner: of the MLP, or of each expert's
  int64_t experts = 0, choices = 0;             // of each block, and of a token; 0: no experts
  bool normalized = true;                       // the weights of a token's choices add up to 1
  int64_t heads = 0, groups = 0, head_dim = 0;  // groups: heads of keys and values
  int64_t positions = 0;                        // the longest sequence
  double norm_epsilon = 0;
  double rotary_theta = 0;                     // 0: positions are embedded (gpt2)
  std::optional<RotaryScalingConfig> scaling;  // of rotary frequencies
  int64_t window = 0;                          // of attention; 0: none
  bool tied = false;                           // the head is the table of the embedding
  double dropout = 0;                          // gpt2: the three rates, where they are equal
  std::vector<int64_t> end_ids;                // that end a text
  std::optional<int64_t> begin_id;
  std::string dtype;  // "f32", "bf16", "f16"; empty: not said
  bool operator==(const HuggingFaceConfig&) const = default;

  bool is_gpt2() const { return model_type == "gpt2"; }
  // Families differ in these, not their configurations.
  bool has_qkv_bias() const { return is_gpt2() || model_type == "qwen2"; }
  bool has_qk_norm() const { return model_type == "qwen3" || model_type == "qwen3_moe"; }
  bool has_experts() const { return model_type == "mixtral" || model_type == "qwen3_moe"; }
};

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
