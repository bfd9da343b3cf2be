// A family of models: all that annotate_model and the tools know of the models of one kind. Each
// family is a file (gpt.h, llama.h) that gives its row; families.h lists the rows.
//
//   Family{.name = "llama", .known_by = {"wte", "norm_f.weight"},
//          .splits = {{"wte", S(0)}, {"h.*.attn.qkv.weight", S(1), B()}}}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/model/file_tensors.h"
#include "oneflow_core/tensor/sbp.h"

namespace oneflow {

// Standard deviation of a model's first weights, as GPT-2 has it.
inline constexpr double kDeviation = 0.02;

// The layout of a variable on axes `tensor`. Variables that are not listed are replicated there.
struct TensorSplit {
  std::string_view variable;  // "wte"; "h.*.mlp.fc.weight": of every block
  Sbp sbp;                    // splits a dimension
  // For models whose query heads share keys and values in groups: the layout on the factors of
  // `tensor` that split the query heads of a group. These factors have no further group to split.
  // Absent: `sbp` there, too.
  std::optional<Sbp> within_group = {};
  // For the weight of a mixture of experts: the layout on axes that split experts. Its readers are
  // computed on the devices of its experts.
  std::optional<Sbp> by_expert = {};
};

struct Family {
  std::string_view name;    // Graph::family, and `oneflow model NAME`
  std::string_view models;  // "GPT-2 and GPT-3"
  std::vector<std::string> presets;
  std::vector<std::string_view> known_by;  // variables that no other family has all of
  std::vector<TensorSplit> splits;
  const FamilyFiles* files = nullptr;  // its tensors in files of Hugging Face
};

// The error of a preset that a family does not have; it names the nearest.
absl::Status UnknownPreset(std::string_view name, const std::vector<std::string>& presets);

}  // namespace oneflow
