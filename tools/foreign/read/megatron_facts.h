// The meaning of Megatron's settings, which Megatron-LM, Megatron-Bridge and NeMo share. Keys are
// those of its flags, "num_layers", and those of its configuration classes, "num_moe_experts".
#pragma once

#include <span>

#include "absl/status/status.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {

// In what the three differ.
struct MegatronForm {
  // Defaults.
  double beta2 = 0.999, weight_decay = 0.01, dropout = 0.1, clip = 1;
  std::string schedule = "linear";
  bool biases = true, tied = true;
  int64_t divisible_by = 128;  // of a padded vocabulary
  bool pads_vocab = true;
  std::string default_tokenizer;  // "" if one must be named
  // num_query_groups counts only beside the switch group_query_attention.
  bool groups_need_switch = true;
  SharedWords words;  // of degrees and batches
  // Megatron-DeepSpeed: --deepspeed stands among the flags, whose older names are valid there.
  bool deepspeed = false;
  // Of a flag that the system does not know; empty if it takes any.
  std::string refuses_unknown;
};

// Takes what the keys say, fills in `facts` but for `devices`, and sorts the settings by
// MegatronLists and by `more`.
absl::Status FillMegatronFacts(Settings& settings, const MegatronForm& form,
                               const ForeignInput& input, std::span<const ListedKeys> more,
                               Facts* facts);

// Settings of Megatron that no reader asks for.
std::span<const ListedKeys> MegatronLists();

// The parts of FillMegatronFacts. The shape needs the degree of tensor, which pads the vocabulary.
absl::StatusOr<std::optional<ShapeNumbers>> ReadMegatronShape(Settings& settings,
                                                              const MegatronForm& form,
                                                              const ForeignInput& input,
                                                              Facts* facts);
void ReadMegatronOptimizer(Settings& settings, const MegatronForm& form, Facts* facts);
// Degrees, sharding, schedule, recompute, precision, offload. `layers`: 0 if not said.
void ReadMegatronParallelism(Settings& settings, const MegatronForm& form, int64_t layers,
                             Facts* facts);

// Adds the rules of Megatron-LM's own check that the settings break. `positions`: of
// max_position_embeddings; 0 if not said.
void CheckMegatronRules(const Settings& settings, const MegatronForm& form, int64_t positions,
                        Facts* facts);

// Flags with underscores, where the system's have dashes, become unknown.
void RefuseUnderscores(Facts* facts);
// Adds what argparse refuses among known flags: choices, whole numbers, values of switches.
void CheckMegatronWords(Facts* facts);

// Blocks of each slice of "Et*3|(t|)*2L": an input error says what is wrong.
absl::StatusOr<std::vector<int64_t>> ParseLayout(const std::string& layout);

}  // namespace oneflow::foreign
