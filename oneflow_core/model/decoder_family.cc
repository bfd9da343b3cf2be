// What families of decoders share: the numbers of Llama, and the layouts of variables.
#include <google/protobuf/text_format.h>

#include <string>
#include <utility>

#include <glog/logging.h>

#include "oneflow_core/model/decoder.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// Those of llama-124m, of the size of GPT-2 124M.
constexpr std::string_view kDecoderDefaults =
    "layers: 12 hidden: 768 inner: 2432 heads: 12 groups: 4 head_dim: 64 sequence: 1024 "
    "vocab: 50257 tied: true theta: 10000 rope_scaling {} rotary_share: 1 norm_epsilon: 1e-5 "
    "window: 0 qkv_bias: false proj_bias: false qk_norm: false norm_all_heads: false "
    "norms: 'before' norm_offset: 0 activation: 'silu' attention_scale: 0 attention_cap: 0 "
    "logit_cap: 0 sinks: false embedding_scale: 1 blocks {} "
    "experts: 0 experts_per_token: 2 shared_inner: 0 norm_topk_prob: true capacity: 0 slots: 0 "
    "next_tokens: 0 next_tokens_coeff: 0.3 slot_groups: 0 scores: 'softmax' router_bias: false "
    "expert_bias: false routed_scale: 1 "
    "bias_rate: 0 aux_loss_coeff: 0.01 z_loss_coeff: 0 routed_positions: 0";

proto::Model ParseDefaults(std::string_view text) {
  proto::Model model;
  CHECK(google::protobuf::TextFormat::ParseFromString(std::string(text), &model)) << text;
  return model;
}

std::string MergeDefaults(std::string_view own) {
  proto::Model model = ParseDefaults(kDecoderDefaults);
  CopyFields(ModelRows(), ParseDefaults(own), &model);
  std::string text;
  CHECK(google::protobuf::TextFormat::PrintToString(model, &text));
  return text;
}

// The layouts of a block's variables, and of those of the block that predicts next tokens.
std::vector<TensorSplit> ListSplits() {
  std::vector<TensorSplit> splits = {
      {"wte", S(0)},
      {"head.weight", S(0)},
      {"h.*.attn.qkv.weight", S(1), B()},
      {"h.*.attn.qkv.bias", S(0), B()},
      {"h.*.attn.q_norm_all.weight", S(0), S(1)},
      {"h.*.attn.k_norm_all.weight", S(0), B()},
      {"h.*.attn.sinks", S(0), S(1)},
      {"h.*.attn.proj.weight", S(0), S(1)},
      {"h.*.mlp.gate.weight", S(1)},
      {"h.*.mlp.up.weight", S(1)},
      {"h.*.mlp.proj.weight", S(0)},
      {"h.*.mlp.shared.gate.weight", S(1)},
      {"h.*.mlp.shared.up.weight", S(1)},
      {"h.*.mlp.shared.proj.weight", S(0)},
      {.variable = "h.*.mlp.experts.gate.weight", .sbp = S(2), .by_expert = S(0)},
      {.variable = "h.*.mlp.experts.gate.bias", .sbp = S(1), .by_expert = S(0)},
      {.variable = "h.*.mlp.experts.up.weight", .sbp = S(2), .by_expert = S(0)},
      {.variable = "h.*.mlp.experts.up.bias", .sbp = S(1), .by_expert = S(0)},
      {.variable = "h.*.mlp.experts.proj.weight", .sbp = S(1), .by_expert = S(0)},
      {.variable = "h.*.mlp.experts.proj.bias", .sbp = B(), .by_expert = S(0)}};
  constexpr std::string_view kOfBlock = "h.*.";
  for (size_t i = 0, listed = splits.size(); i < listed; ++i) {
    if (!splits[i].variable.starts_with(kOfBlock)) continue;
    TensorSplit further = splits[i];
    further.variable = "mtp." + splits[i].variable.substr(kOfBlock.size());
    splits.push_back(std::move(further));
  }
  return splits;
}

}  // namespace

Family DecoderFamily(std::string_view name, std::string_view models, std::string_view own,
                     std::vector<Preset> presets) {
  return {.name = name,
          .models = models,
          .defaults = MergeDefaults(own),
          .presets = std::move(presets),
          .finish = FinishDecoder,
          .build = BuildDecoder,
          .splits = ListSplits()};
}

}  // namespace oneflow
