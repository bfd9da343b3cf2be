// Names of published models, and the presets that have their shapes.
//
//   FindPublicModel("meta-llama/Llama-3.1-8B-Instruct")  // preset "llama3.1-8b" of family "llama"
//   FindPublicModel("qwen2.5-7b")                        // a preset's own name is one
//
// It is a table of shapes: Base, Instruct and -hf of a model are the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace oneflow {

struct PublicModel {
  std::string family, preset;
};

// The name with its organisation or without, in upper or lower case. None: not in the table.
std::optional<PublicModel> FindPublicModel(std::string_view name);

// The nearest name of a preset for a mistyped one; empty if none is near.
std::string NearestPublicModel(std::string_view name);

}  // namespace oneflow
