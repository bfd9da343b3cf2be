// A family of models: all that annotate_model and the tools know of the models of one kind. Each
// family is a file (gpt.h, llama.h) that gives its row; families.h lists the rows.
//
//   Family{.name = "llama", .defaults = "layers: 12 heads: 12 ...",
//          .known_by = {"wte", "norm_f.weight"},
//          .splits = {{"wte", S(0)}, {"h.*.attn.qkv.weight", S(1), B()}}}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/model/file_tensors.h"
#include "oneflow_core/tensor/sbp.h"
#include "proto/graph.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Standard deviation of a model's first weights, as GPT-2 has it.
inline constexpr double kDeviation = 0.02;

// The layout of a variable on axes `tensor`. Variables that are not listed are replicated there.
struct TensorSplit {
  std::string variable;  // "wte"; "h.*.mlp.fc.weight": of every block
  Sbp sbp;               // splits a dimension
  // For models whose query heads share keys and values in groups: the layout on the factors of
  // `tensor` that split the query heads of a group. These factors have no further group to split.
  // Absent: `sbp` there, too.
  std::optional<Sbp> within_group = {};
  // For the weight of a mixture of experts: the layout on axes that split experts. Its readers are
  // computed on the devices of its experts.
  std::optional<Sbp> by_expert = {};
};

// A model with a name.
struct Preset {
  std::string name;     // "gpt2-124m"
  std::string numbers;  // that are not the family's defaults, as text of a proto::Model
};

struct Family {
  std::string_view name;    // Graph::family, and `oneflow model NAME`
  std::string_view models;  // "GPT-2 and GPT-3"
  // The numbers of a model without a preset, as text of a proto::Model. They are all the numbers
  // that the family has.
  std::string defaults;
  std::vector<Preset> presets;
  // Sets what follows from what is said, in a model that has the other numbers; then checks it.
  // `said` may be complete, too. Errors name the flag.
  absl::Status (*finish)(const proto::Model& said, proto::Model* model);
  proto::Graph (*build)(const proto::Model& complete, const std::string& name);
  // Variables that no other family has all of; none: its graphs say their family.
  std::vector<std::string_view> known_by;
  std::vector<TensorSplit> splits;
  const FamilyFiles* files = nullptr;  // its tensors in files of Hugging Face
};

}  // namespace oneflow
