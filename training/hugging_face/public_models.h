// Names of published models, and the presets that have their shapes.
//
//   FindPublicModel("meta-llama/Llama-3.1-8B-Instruct")  // preset "llama3.1-8b" of family "llama"
//   FindPublicModel("qwen2.5-7b")                        // a preset's own name is one
//   FindPublicConfig("EleutherAI/gpt-neox-20b")          // the text of its config.json
//
// It is a table of shapes: Base, Instruct and -hf of a model are the same.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace oneflow {

struct PublicModel {
  std::string family, preset;
  bool operator==(const PublicModel&) const = default;
};

// The name with its organisation or without, in upper or lower case. None: not in the table.
std::optional<PublicModel> FindPublicModel(std::string_view name);

// A public model that has no preset, because no family can build it: what its config.json says of
// its shape, for --approximate.
struct PublicConfig {
  std::string_view name;  // "gpt-neox-20b"
  std::string_view text;
};
std::span<const PublicConfig> PublicConfigs();
const PublicConfig* FindPublicConfig(std::string_view name);

// The nearest name of a preset, or of a PublicConfig, for a mistyped one; empty if none is near.
std::string NearestPublicModel(std::string_view name);

}  // namespace oneflow
