// Reads a training configuration of another system: Megatron-LM, Megatron-Bridge, NeMo,
// torchtitan, DeepSpeed and the Trainer of transformers, accelerate, GPT-NeoX.
//
//   ASSIGN_OR_RETURN(const Facts facts, ReadForeign({.files = {"run.sh"}}));
//   facts.system, facts.degrees.tensor, facts.settings, facts.broken
//
// It is no interpreter: nothing is run, and what a script computes is named as not read. What the
// files do not say is asked (Facts::questions), never guessed. Contradictions are facts
// (Facts::broken), errors are only what cannot be read at all.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

struct ForeignInput {
  std::vector<std::string> files;
  std::vector<std::string> words;  // a command
  // What the user says beside them.
  std::string model;  // a word that names a model; "" if none
  std::optional<int64_t> devices;
  int64_t devices_a_node = 0;  // with `devices`; 0: not said
  std::optional<int64_t> sequence, vocab, batch;
};

absl::StatusOr<Facts> ReadForeign(const ForeignInput& input);

// The readers, each in the file of its name: true from `knows` if the sources are this system's.
struct Reader {
  std::string_view system;
  bool (*knows)(const Sources& sources);
  absl::StatusOr<Facts> (*read)(Sources& sources, const ForeignInput& input);
};
Reader MegatronReader();    // megatron.cc: scripts, arguments and --yaml-cfg
Reader BridgeReader();      // bridge.cc: Megatron-Bridge and NeMo
Reader TorchtitanReader();  // torchtitan.cc
Reader DeepSpeedReader();   // deepspeed.cc, with words of TrainingArguments (hf_trainer.cc)
Reader AccelerateReader();  // accelerate.cc, likewise
Reader NeoxReader();        // neox.cc

// A model of a shape that Megatron's terms describe, shared by the readers whose systems build
// their models from numbers (Megatron-LM, Bridge, NeMo, NeoX).
struct ShapeNumbers {
  int64_t layers = 0, hidden = 0, heads = 0, groups = 0, ffn = 0, head_dim = 0, sequence = 0;
  int64_t vocab = 0;   // padded
  bool gated = false;  // SwiGLU; else `activation`
  std::string activation = "gelu";
  bool rms_norm = false, biases = true, qkv_bias = false, qk_norm = false, tied = true;
  bool norm_bias = true;
  std::string positions = "learned";  // "learned", "rope", "none", "alibi", ...
  int64_t position_rows = 0;          // of a learned table; 0: `sequence`
  double rotary_share = 1, theta = 10000, norm_epsilon = 1e-5;
  std::optional<proto::RopeScaling> rope_scaling;
  bool parallel_branches = false;
  int64_t parallel_norms = 2;  // of a block with parallel branches
  std::string other_scaling;   // of rotary positions: "yarn"
  int64_t window = 0;
  double dropout_hidden = 0, dropout_attention = 0;
  int64_t experts = 0, experts_per_token = 0, expert_ffn = 0, shared_ffn = 0;
  int64_t dense_layers = 0;                                                // without experts
  int64_t query_rank = 0, latent_rank = 0, rotary_dim = 0, value_dim = 0;  // of latent attention
  std::string scores = "softmax";
  bool norm_topk_prob = true;
  std::optional<double> capacity;
  double aux_loss = 0, z_loss = 0, bias_rate = 0;
  std::vector<Difference> differences;  // more that a reader knows of
};
// The nearest model here, and what differs. An input error where even that cannot be: heads that
// do not divide, ...
absl::StatusOr<ModelFacts> MakeModelFacts(const ShapeNumbers& shape);

// Fills in the model that --model names, at the sequence's length if that is known. Requires one.
absl::Status ReadModelOfFlag(const ForeignInput& input, Facts* facts);

// The name of a preset with the numbers of a complete model, but for its positions and padding; ""
// if there is none.
std::string FindPresetOfShape(const proto::Model& model, int64_t vocab_given);

// Rows of the table of a vocabulary padded up to a multiple.
int64_t PadVocab(int64_t vocab, int64_t multiple);

// Fills in Facts::degrees.data, batch.micro_batches and sharding.ways from the rest, and adds the
// broken rules that all systems share: devices that the degrees do not divide, a batch that
// micro-batch x data does not divide. Words are the system's: {"--tensor-model-parallel-size",
// ...}.
struct SharedWords {
  std::string tensor, pipe, context, global, micro;
};
void CompleteDegrees(const SharedWords& words, Facts* facts);

}  // namespace oneflow::foreign
