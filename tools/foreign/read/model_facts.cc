// From the numbers of a model to the nearest one here.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "tools/foreign/read/read.h"
#include "training/hugging_face/named_model.h"
#include "training/hugging_face/nearest_model.h"

namespace oneflow::foreign {
namespace {

Architecture MakeArchitecture(const ShapeNumbers& s) {
  Architecture a{.layers = s.layers, .hidden = s.hidden, .vocab = s.vocab};
  a.sequence = s.sequence;
  a.tied = s.tied;
  a.positions = s.positions == "learned" ? Architecture::Positions::kLearned
                : s.positions == "alibi" ? Architecture::Positions::kAlibi
                : s.positions == "rope"  ? Architecture::Positions::kRotary
                                         : Architecture::Positions::kNone;
  a.learned_rows = s.positions == "learned" && s.position_rows > 0 ? s.position_rows : 0;
  a.rotary_share = s.positions == "rope" ? s.rotary_share : 1;
  a.theta = s.theta;
  if (s.rope_scaling) a.rope_scaling = *s.rope_scaling;
  a.other_scaling = s.other_scaling;
  a.heads = s.heads;
  a.groups = s.groups;
  a.head_dim = s.head_dim;
  a.value_dim = s.value_dim;
  a.query_rank = s.query_rank;
  a.latent_rank = s.latent_rank;
  a.rotary_dim = s.rotary_dim;
  a.qkv_bias = s.biases || s.qkv_bias;
  a.proj_bias = a.mlp_bias = s.biases;
  if (s.qk_norm) a.qk_norm = Architecture::QkNorm::kOfHead;
  a.window = s.window;
  a.inner = s.ffn;
  a.gated = s.gated;
  // Megatron's fused gelu is the approximation by tanh.
  a.activation = s.activation == "gelu" && !s.gated ? kGptActivation : s.activation;
  a.experts = s.experts;
  a.experts_per_token = s.experts > 0 ? s.experts_per_token : 0;
  a.expert_inner = s.experts > 0 ? s.expert_ffn : 0;
  a.dense_layers = s.experts > 0 ? s.dense_layers : 0;
  a.shared_inner = s.experts > 0 ? s.shared_ffn : 0;
  a.expert_bias = s.experts > 0 && s.biases;
  a.norm_topk_prob = s.norm_topk_prob;
  a.scores = s.scores;
  a.norm = s.rms_norm    ? Architecture::Norm::kRms
           : s.norm_bias ? Architecture::Norm::kLayer
                         : Architecture::Norm::kLayerWithoutBias;
  a.norm_epsilon = s.norm_epsilon;
  a.parallel = s.parallel_branches;
  a.block_norms = s.parallel_branches ? s.parallel_norms : 2;
  a.others = s.differences;
  return a;
}

// Numbers that act in training alone.
void SetTraining(const ShapeNumbers& s, proto::Model& model) {
  if (model.family() == "gpt") {
    model.set_dropout(std::min(s.dropout_hidden, 0.999));
    return;
  }
  if (s.experts == 0) return;
  model.set_aux_loss_coeff(s.aux_loss);
  model.set_z_loss_coeff(s.z_loss);
  model.set_bias_rate(s.bias_rate);
  if (s.capacity) model.set_capacity(*s.capacity);
}

// True where `model` has the shape of the preset, whatever its positions and padding.
bool HasShape(const proto::Model& preset, const proto::Model& model, int64_t vocab) {
  return preset.layers() == model.layers() && preset.hidden() == model.hidden() &&
         preset.heads() == model.heads() && preset.groups() == model.groups() &&
         preset.inner() == model.inner() && preset.head_dim() == model.head_dim() &&
         preset.tied() == model.tied() &&
         (preset.vocab() == vocab || preset.vocab() == model.vocab()) &&
         preset.experts() == model.experts() && preset.qkv_bias() == model.qkv_bias() &&
         preset.qk_norm() == model.qk_norm();
}

}  // namespace

std::string FindPresetOfShape(const proto::Model& model, int64_t vocab_given) {
  // One whose rotary positions are scaled in another way is of the shape, too, where no other is.
  std::string of_shape;
  for (const Family& family : Families()) {
    if (family.name != model.family()) continue;
    for (const Preset& preset : family.presets) {
      proto::Model said;
      said.set_family(std::string(family.name));
      said.set_preset(preset.name);
      const absl::StatusOr<proto::Model> complete = CompleteModel(said);
      if (!complete.ok() || !HasShape(*complete, model, vocab_given)) continue;
      if (complete->rope_scaling().factor() == model.rope_scaling().factor()) return preset.name;
      if (of_shape.empty()) of_shape = preset.name;
    }
  }
  return of_shape;
}

absl::StatusOr<ModelFacts> MakeModelFacts(const ShapeNumbers& shape) {
  ShapeNumbers s = shape;
  if (s.experts > 0 && s.expert_ffn == 0) s.expert_ffn = s.ffn;
  ModelFacts facts;
  facts.from = "flags";
  ASSIGN_OR_RETURN(const NearestModel nearest, FindNearestModel(MakeArchitecture(s), "the model"));
  proto::Model model = nearest.model;
  SetTraining(s, model);
  ASSIGN_OR_RETURN(facts.model, CompleteModel(model));
  facts.parameters = nearest.theirs.parameters;
  facts.differences = nearest.differences;
  if (s.dropout_attention > 0) {
    facts.notes.push_back(absl::StrCat("dropout of attention, ", s.dropout_attention,
                                       ", is left out: one kernel computes attention"));
  }
  if (s.dropout_hidden > 0 && model.family() != "gpt") {
    facts.notes.push_back(
        absl::StrCat("dropout of ", s.dropout_hidden,
                     " is left out: models with rotary positions have none here"));
  }
  return facts;
}

absl::Status ReadModelOfFlag(const ForeignInput& input, Facts* facts) {
  NamedModelOptions options{.approximate = true};
  if (facts->sequence) options.said.set_sequence(*facts->sequence);
  ASSIGN_OR_RETURN(const NamedModel model, FindNamedModel(input.model, options));
  facts->model = {.model = model.model,
                  .from = "--model",
                  .parameters = model.parameters,
                  .vocab_given = model.model.vocab(),
                  .differences = model.differences};
  return absl::OkStatus();
}

}  // namespace oneflow::foreign
