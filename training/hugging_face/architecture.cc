#include "training/hugging_face/architecture.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "oneflow_core/model/block_lists.h"

namespace oneflow {
namespace {

using Norm = Architecture::Norm;
using Positions = Architecture::Positions;
using QkNorm = Architecture::QkNorm;

constexpr double kTrainingFlops = 6;  // of a weight and a token: 2 forward, 4 backward

// Elements of variables, and the weights among them that a token is multiplied with.
struct Weights {
  int64_t all = 0, multiplied = 0;

  void AddProduct(int64_t elements) { AddProduct(elements, elements); }
  void AddProduct(int64_t elements, int64_t of_a_token) {
    all += elements;
    multiplied += of_a_token;
  }
  void Add(int64_t elements) { all += elements; }
};

int64_t ValueDim(const Architecture& a) { return a.value_dim > 0 ? a.value_dim : a.head_dim; }

int64_t LinearLayers(const Architecture& a) { return std::min(a.linear_layers, a.layers); }

int64_t CountNorm(Norm norm, int64_t width) {
  switch (norm) {
    case Norm::kRms:
    case Norm::kLayerWithoutBias: return width;
    case Norm::kLayer: return 2 * width;
    case Norm::kWithoutWeights: return 0;
  }
  return 0;
}

void AddAttention(const Architecture& a, int64_t layers, Weights& w) {
  const int64_t values = a.heads * ValueDim(a);
  if (a.latent_rank > 0) {
    const int64_t queries = a.heads * a.head_dim;
    w.AddProduct(layers *
                 (a.query_rank > 0 ? a.query_rank * (a.hidden + queries) : a.hidden * queries));
    w.Add(layers * (a.query_rank + a.latent_rank));  // their norms
    w.AddProduct(layers * a.hidden * (a.latent_rank + a.rotary_dim));
    w.AddProduct(layers * a.latent_rank * a.heads * (a.head_dim - a.rotary_dim + ValueDim(a)));
  } else {
    const int64_t projected =
        a.heads * a.head_dim * (a.gated_attention ? 2 : 1) + a.groups * (a.head_dim + ValueDim(a));
    w.AddProduct(layers * a.hidden * projected);
    if (a.qkv_bias) w.Add(layers * projected);
    if (a.qk_norm == QkNorm::kOfHead) w.Add(layers * 2 * a.head_dim);
    if (a.qk_norm == QkNorm::kOfAllHeads) w.Add(layers * (a.heads + a.groups) * a.head_dim);
  }
  w.AddProduct(layers * values * a.hidden);
  if (a.proj_bias) w.Add(layers * a.hidden);
  if (a.sinks) w.Add(layers * a.heads);
}

void AddLinearAttention(const Architecture& a, int64_t layers, Weights& w) {
  const int64_t keys = a.linear_key_heads * a.linear_key_dim;
  const int64_t values = a.linear_value_heads * a.linear_value_dim;
  w.AddProduct(layers * a.hidden * 2 * (keys + values));       // queries, keys, values, gates
  w.AddProduct(layers * a.hidden * 2 * a.linear_value_heads);  // rates
  w.AddProduct(layers * (2 * keys + values) * a.linear_kernel);
  w.Add(layers * (2 * a.linear_value_heads + a.linear_value_dim));
  w.AddProduct(layers * values * a.hidden);
}

// The elements of an MLP of a width.
int64_t CountMlp(const Architecture& a, int64_t width) {
  return (a.gated ? 3 : 2) * a.hidden * width;
}
int64_t CountMlpBiases(const Architecture& a, int64_t width) {
  return (a.gated ? 2 : 1) * width + a.hidden;
}

void AddMlps(const Architecture& a, Weights& w) {
  const int64_t dense = a.experts > 0 ? std::min(a.dense_layers, a.layers) : a.layers;
  const int64_t mixtures = a.layers - dense;
  w.AddProduct(dense * CountMlp(a, a.inner));
  if (a.mlp_bias) w.Add(dense * CountMlpBiases(a, a.inner));
  if (mixtures == 0) return;
  const int64_t expert = CountMlp(a, a.expert_inner);
  w.AddProduct(mixtures * a.experts * expert, mixtures * a.experts_per_token * expert);
  if (a.expert_bias) w.Add(mixtures * a.experts * CountMlpBiases(a, a.expert_inner));
  w.AddProduct(mixtures * a.hidden * a.experts);
  if (a.router_bias) w.Add(mixtures * a.experts);
  w.AddProduct(mixtures * CountMlp(a, a.shared_inner));
  if (a.shared_gate) w.AddProduct(mixtures * a.hidden);
}

// Products of queries with keys and of weights with values, of all layers and of one token.
double CountAttentionElements(const Architecture& a) {
  const int64_t layers = a.layers - LinearLayers(a);
  const int64_t windowed = a.window == 0           ? 0
                           : a.windowed_layers < 0 ? layers
                                                   : std::min(a.windowed_layers, layers);
  const double of_a_key = static_cast<double>(a.heads * (a.head_dim + ValueDim(a)));
  const double keys = static_cast<double>((layers - windowed) * a.sequence +
                                          windowed * std::min(a.window, a.sequence));
  // The delta rule reads the state of each head, corrects it and adds to it.
  const double states =
      3.0 * static_cast<double>(LinearLayers(a) * a.linear_value_heads * a.linear_key_dim) *
      static_cast<double>(a.linear_value_dim);
  return of_a_key * keys + states;
}

// Names of functions, and those of config.json.
constexpr std::pair<const char*, const char*> kActivations[] = {
    {"silu", kLlamaActivation}, {"gelu", kGptActivation}, {"clamped_silu", kClampedActivation}};

std::string TheirActivation(const std::string& ours) {
  for (const auto& [name, theirs] : kActivations) {
    if (ours == name) return theirs;
  }
  return ours;
}

std::string OurActivation(const std::string& theirs) {
  for (const auto& [name, known] : kActivations) {
    if (theirs == known) return name;
  }
  return theirs;
}

// True for `count` of the layers: all but the last of each few if that makes so many, as in
// published models, else the first ones of each part of a repeated pattern.
std::vector<bool> Spread(int64_t count, int64_t layers) {
  std::vector<bool> list(layers);
  int64_t period = 2;
  while (period <= layers && layers - layers / period != count) ++period;
  const int64_t part = period <= layers ? period : layers / std::gcd(layers, count);
  const int64_t first = period <= layers ? period - 1 : count / std::gcd(layers, count);
  for (int64_t i = 0; i < layers; ++i) list[i] = i % part < first;
  return list;
}

// Sets the numbers of layers that differ. Requires that they differ in one way (IsOnePattern).
void SetKinds(const Architecture& a, proto::Model& model) {
  std::vector<proto::Model> own = ListOwnNumbers(model);
  const auto layers = static_cast<int64_t>(own.size());
  const int64_t windowed = a.window == 0 ? 0 : a.windowed_layers < 0 ? layers : a.windowed_layers;
  const std::vector<bool> windows = Spread(windowed, layers);
  const std::vector<bool> rotated = Spread(layers - a.unrotated_layers, layers);
  for (int64_t i = 0; i < layers; ++i) {
    if (windows[i]) {
      own[i].set_window(a.window);
      if (a.window_theta > 0) own[i].set_theta(a.window_theta);
      if (a.windows_unscaled) own[i].mutable_rope_scaling();
    }
    if (!rotated[i]) own[i].set_rotary_share(0);
    if (a.experts > 0 && i < a.dense_layers) own[i].set_experts(0), own[i].set_inner(a.inner);
  }
  SetBlocks(own, &model);
}

}  // namespace

ArchitectureSize CountArchitecture(const Architecture& a) {
  Weights w;
  const int64_t width = a.embedding_width > 0 ? a.embedding_width : a.hidden;
  w.Add(a.vocab * width);
  w.AddProduct(a.tied ? 0 : a.vocab * width, a.vocab * width);
  if (a.embedding_width > 0) w.AddProduct(2 * width * a.hidden);
  if (a.head_bias) w.Add(a.vocab);
  if (a.positions == Positions::kLearned) {
    w.Add((a.learned_rows > 0 ? a.learned_rows : a.sequence) * a.hidden);
  }
  AddAttention(a, a.layers - LinearLayers(a), w);
  AddLinearAttention(a, LinearLayers(a), w);
  AddMlps(a, w);
  const int64_t norms =
      a.layers * a.block_norms + (a.final_norm ? 1 : 0) + (a.embedding_norm ? 1 : 0);
  w.Add(norms * CountNorm(a.norm, a.hidden));
  return {w.all, kTrainingFlops * (static_cast<double>(w.multiplied) + CountAttentionElements(a))};
}

Architecture DescribeModel(const proto::Model& model) {
  Architecture a{.layers = model.layers(),
                 .hidden = model.hidden(),
                 .vocab = model.vocab(),
                 .sequence = model.sequence(),
                 .tied = model.tied(),
                 .heads = model.heads(),
                 .norm_epsilon = model.norm_epsilon()};
  if (model.family() == "gpt") {
    a.positions = Positions::kLearned;
    a.groups = model.heads();
    a.head_dim = model.hidden() / model.heads();
    a.inner = 4 * model.hidden();
    a.gated = false;
    a.activation = kGptActivation;
    a.qkv_bias = a.proj_bias = a.mlp_bias = model.bias();
    a.norm = model.bias() ? Norm::kLayer : Norm::kLayerWithoutBias;
    return a;
  }
  const proto::Model full = FindBlock(model, false), local = FindBlock(model, true);
  a.theta = full.theta();
  a.rope_scaling = full.rope_scaling();
  a.window_theta = local.theta() == full.theta() ? 0 : local.theta();
  a.windows_unscaled = local.rope_scaling().factor() == 0 && full.rope_scaling().factor() > 0;
  a.window = local.window();
  a.windowed_layers = 0;
  a.groups = model.groups();
  a.head_dim = model.head_dim();
  a.qkv_bias = model.qkv_bias();
  a.proj_bias = model.proj_bias();
  a.sinks = model.sinks();
  a.attention_scale = model.attention_scale();
  a.attention_cap = model.attention_cap();
  a.logit_cap = model.logit_cap();
  a.embedding_scale = model.embedding_scale();
  a.norm_offset = model.norm_offset();
  a.activation = TheirActivation(model.activation());
  a.block_norms = model.norms() == "both" ? 4 : 2;
  a.norms_after = model.norms() == "after";
  a.qk_norm = !model.qk_norm()         ? QkNorm::kNone
              : model.norm_all_heads() ? QkNorm::kOfAllHeads
                                       : QkNorm::kOfHead;
  a.rotary_share = 0;
  (model.experts() > 0 ? a.expert_inner : a.inner) = model.inner();
  for (const proto::Model& block : ListBlocks(model)) {
    if (block.window() > 0) ++a.windowed_layers;
    if (block.rotary_share() == 0) ++a.unrotated_layers;
    a.rotary_share = std::max(a.rotary_share, block.rotary_share());
    if (block.experts() > 0 || model.experts() == 0) continue;
    ++a.dense_layers;
    a.inner = block.inner();
  }
  if (a.windowed_layers == a.layers || a.window == 0) a.windowed_layers = -1;
  if (model.experts() == 0) return a;
  a.experts = model.experts();
  a.experts_per_token = model.experts_per_token();
  a.shared_inner = model.shared_inner();
  a.norm_topk_prob = model.norm_topk_prob();
  a.scores = model.scores();
  a.routed_scale = model.routed_scale();
  a.router_bias = model.router_bias();
  a.expert_bias = model.expert_bias();
  a.moved_choices = model.bias_rate() > 0;
  return a;
}

bool IsOnePattern(const Architecture& a) {
  const int64_t windowed = a.window > 0 && a.windowed_layers > 0 ? a.windowed_layers : 0;
  const int64_t dense = a.experts > 0 ? a.dense_layers : 0;
  const int kinds = (windowed > 0 ? 1 : 0) + (a.unrotated_layers > 0 ? 1 : 0) + (dense > 0 ? 1 : 0);
  // Layers without a window may be those without positions.
  return kinds < 2 || (kinds == 2 && dense == 0 && windowed + a.unrotated_layers == a.layers);
}

proto::Model SayModel(const Architecture& a, bool is_gpt) {
  proto::Model model;
  model.set_family(is_gpt ? "gpt" : "llama");
  model.set_layers(a.layers);
  model.set_heads(a.heads);
  model.set_hidden(a.hidden);
  model.set_sequence(a.sequence);
  model.set_vocab(a.vocab);
  model.set_tied(a.tied);
  model.set_norm_epsilon(a.norm_epsilon);
  if (is_gpt) {
    model.set_bias(a.mlp_bias);
    return model;
  }
  model.set_groups(a.groups);
  model.set_head_dim(a.head_dim);
  model.set_inner(a.experts > 0 ? a.expert_inner : a.inner);
  model.set_theta(a.theta);
  *model.mutable_rope_scaling() = a.rope_scaling;
  model.set_rotary_share(a.rotary_share);
  model.set_qkv_bias(a.qkv_bias);
  model.set_proj_bias(a.proj_bias);
  model.set_sinks(a.sinks);
  model.set_attention_scale(a.attention_scale);
  model.set_attention_cap(a.attention_cap);
  model.set_logit_cap(a.logit_cap);
  model.set_embedding_scale(a.embedding_scale);
  model.set_norm_offset(a.norm_offset);
  model.set_norms(a.norms_after ? "after" : a.block_norms == 4 ? "both" : "before");
  model.set_activation(OurActivation(a.activation));
  model.set_qk_norm(a.qk_norm != QkNorm::kNone);
  model.set_norm_all_heads(a.qk_norm == QkNorm::kOfAllHeads);
  model.set_experts(a.experts);
  if (a.experts > 0) {
    model.set_experts_per_token(a.experts_per_token);
    model.set_shared_inner(a.shared_inner);
    model.set_norm_topk_prob(a.norm_topk_prob);
    model.set_scores(a.scores);
    model.set_routed_scale(a.routed_scale);
    model.set_router_bias(a.router_bias);
    model.set_expert_bias(a.expert_bias);
    if (a.moved_choices) model.set_bias_rate(0.001);
  }
  SetKinds(a, model);
  return model;
}

}  // namespace oneflow
