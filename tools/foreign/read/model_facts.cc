// From the numbers of a model to the nearest one here.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {
namespace {

// Parameters of `shape` as its system makes them.
int64_t CountTheirs(const ShapeNumbers& s) {
  const int64_t qkv = (s.heads + 2 * s.groups) * s.head_dim;
  const int64_t up = s.gated ? 2 : 1;  // products into the MLP
  const auto mlp = [&](int64_t ffn) {
    return (up + 1) * s.hidden * ffn + (s.biases ? up * ffn + s.hidden : 0);
  };
  const int64_t norm = s.rms_norm || !s.norm_bias ? s.hidden : 2 * s.hidden;
  const int64_t norms = s.parallel_branches ? 1 : 2;
  int64_t block = s.hidden * qkv + s.heads * s.head_dim * s.hidden + norms * norm;
  if (s.biases || s.qkv_bias) block += qkv;
  if (s.biases) block += s.hidden;
  if (s.qk_norm) block += 2 * s.head_dim;
  if (s.experts > 0) {
    block += s.experts * mlp(s.expert_ffn) + s.hidden * s.experts;
    if (s.shared_ffn > 0) block += mlp(s.shared_ffn);
  } else {
    block += mlp(s.ffn);
  }
  int64_t all = s.layers * block + norm + s.vocab * s.hidden * (s.tied ? 1 : 2);
  if (s.positions == "learned") {
    all += (s.position_rows > 0 ? s.position_rows : s.sequence) * s.hidden;
  }
  return all;
}

void SetCommon(const ShapeNumbers& s, proto::Model& model) {
  model.set_layers(s.layers);
  model.set_hidden(s.hidden);
  model.set_heads(s.heads);
  model.set_sequence(s.sequence);
  model.set_vocab(s.vocab);
  model.set_tied(s.tied);
  model.set_norm_epsilon(s.norm_epsilon);
}

proto::Model NearestGpt(const ShapeNumbers& s) {
  proto::Model model;
  model.set_family("gpt");
  SetCommon(s, model);
  model.set_bias(s.biases);
  model.set_dropout(std::min(s.dropout_hidden, 0.999));
  return model;
}

proto::Model NearestLlama(const ShapeNumbers& s) {
  proto::Model model;
  model.set_family("llama");
  SetCommon(s, model);
  model.set_groups(s.groups);
  model.set_head_dim(s.head_dim);
  model.set_theta(s.theta);
  if (s.rope_scaling) *model.mutable_rope_scaling() = *s.rope_scaling;
  model.set_window(s.window);
  model.set_qkv_bias(s.qkv_bias || s.biases);
  model.set_qk_norm(s.qk_norm);
  // An MLP of two products has the elements and FLOPs of one of three that is 2/3 as wide.
  const auto width = [&](int64_t ffn) { return s.gated ? ffn : std::max<int64_t>(1, ffn * 2 / 3); };
  model.set_inner(width(s.experts > 0 ? s.expert_ffn : s.ffn));
  if (s.experts == 0) return model;
  model.set_experts(s.experts);
  model.set_experts_per_token(s.experts_per_token);
  model.set_shared_inner(s.shared_ffn > 0 ? width(s.shared_ffn) : 0);
  model.set_norm_topk_prob(s.norm_topk_prob);
  model.set_scores(s.scores);
  model.set_aux_loss_coeff(s.aux_loss);
  model.set_z_loss_coeff(s.z_loss);
  model.set_bias_rate(s.bias_rate);
  if (s.capacity) model.set_capacity(*s.capacity);
  return model;
}

void ListDifferences(const ShapeNumbers& s, bool is_gpt, std::vector<Difference>& list) {
  const auto add = [&](std::string what) { list.push_back({.what = std::move(what)}); };
  const std::string other = is_gpt ? "learned" : "rope";
  if (s.positions != other) {
    add(absl::StrCat("positions are ", s.positions == "rope" ? "rotary" : s.positions, ", not ",
                     is_gpt ? "learned" : "rotary"));
  }
  if (s.positions == "rope" && s.rotary_share != 1) {
    add(absl::StrCat("rotary positions turn ", s.rotary_share * 100, " % of each head, not all"));
  }
  if (s.parallel_branches) {
    add("attention and MLP stand side by side, not one behind the other");
  }
  if (is_gpt) {
    if (s.activation != "gelu") add(absl::StrCat("the activation is ", s.activation, ", not gelu"));
    if (s.norm_bias != s.biases) add("norms have a bias, and products have none");
    if (s.rms_norm) add("norms are RMS norms, not layer norms");
    return;
  }
  if (!s.gated) {
    add(absl::StrCat("the MLP has two products and ", s.activation, ", not three and a gate"));
  } else if (s.activation != "silu") {
    add(absl::StrCat("the gate's activation is ", s.activation, ", not silu"));
  }
  if (!s.rms_norm) add("norms are layer norms, not RMS norms");
  if (s.biases) add("products have biases, here queries, keys and values alone");
  if (s.dropout_hidden > 0) {
    add(absl::StrCat("dropout of ", s.dropout_hidden, ", here none with rotary positions"));
  }
}

// True where `model` has the shape of the preset, whatever its positions and padding.
bool HasShape(const proto::Model& preset, const proto::Model& model, int64_t vocab) {
  return preset.layers() == model.layers() && preset.hidden() == model.hidden() &&
         preset.heads() == model.heads() && preset.groups() == model.groups() &&
         preset.inner() == model.inner() && preset.head_dim() == model.head_dim() &&
         preset.tied() == model.tied() &&
         (preset.vocab() == vocab || preset.vocab() == model.vocab()) &&
         preset.experts() == model.experts() && preset.qkv_bias() == model.qkv_bias() &&
         preset.qk_norm() == model.qk_norm() &&
         preset.rope_scaling().factor() == model.rope_scaling().factor();
}

}  // namespace

std::string FindPresetOfShape(const proto::Model& model, int64_t vocab_given) {
  for (const Family& family : Families()) {
    if (family.name != model.family()) continue;
    for (const Preset& preset : family.presets) {
      proto::Model said;
      said.set_family(std::string(family.name));
      said.set_preset(preset.name);
      const absl::StatusOr<proto::Model> complete = CompleteModel(said);
      if (complete.ok() && HasShape(*complete, model, vocab_given)) return preset.name;
    }
  }
  return "";
}

absl::StatusOr<ModelFacts> MakeModelFacts(const ShapeNumbers& shape) {
  ShapeNumbers s = shape;
  if (s.experts > 0 && s.expert_ffn == 0) s.expert_ffn = s.ffn;
  const bool even = s.head_dim * s.heads == s.hidden && s.groups == s.heads;
  const bool is_gpt = !s.gated && s.experts == 0 && s.ffn == 4 * s.hidden && even && !s.qk_norm &&
                      s.window == 0 && !(s.rms_norm && s.positions == "rope");
  ModelFacts facts;
  facts.from = "flags";
  ASSIGN_OR_RETURN(facts.model, CompleteModel(is_gpt ? NearestGpt(s) : NearestLlama(s)));
  facts.parameters = CountTheirs(s);
  for (const Difference& more : s.differences) {
    facts.parameters += more.parameters;
    facts.differences.push_back(more);
  }
  ListDifferences(s, is_gpt, facts.differences);
  if (s.dropout_attention > 0) {
    facts.notes.push_back(absl::StrCat("dropout of attention, ", s.dropout_attention,
                                       ", is left out: one kernel computes attention"));
  }
  return facts;
}

}  // namespace oneflow::foreign
