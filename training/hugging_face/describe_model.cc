// The numbers of a model that a graph computes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/block_lists.h"
#include "oneflow_core/model/decoder.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/tensor/shape.h"
#include "training/hugging_face/compare_graphs.h"
#include "training/hugging_face/model_graph.h"

namespace oneflow {
namespace {

// The facts of a graph, by name.
class GraphFacts {
 public:
  explicit GraphFacts(const proto::Graph& graph) {
    for (const proto::Op& op : graph.op()) ops_[op.name()] = &op;
  }

  bool Has(const std::string& name) const { return ops_.contains(name); }
  // The sizes of a variable; empty if there is none.
  Dims Sizes(const std::string& name) const {
    Dims dims;
    const auto it = ops_.find(name);
    if (it == ops_.end() || it->second->kind() != "variable") return dims;
    for (const auto& dim : it->second->shape().dim()) dims.push_back(dim.size());
    return dims;
  }
  std::string Kind(const std::string& name) const {
    const auto it = ops_.find(name);
    return it == ops_.end() ? "" : it->second->kind();
  }
  // The value of an attribute; one that holds nothing where there is none.
  proto::AttrValue Attr(const std::string& name, const std::string& attr) const {
    const auto it = ops_.find(name);
    if (it == ops_.end()) return {};
    const auto found = it->second->attr().find(attr);
    return found == it->second->attr().end() ? proto::AttrValue() : found->second;
  }
  // A number that is left out where it is the usual one.
  double Number(const std::string& name, const std::string& attr, double usual) const {
    const proto::AttrValue value = Attr(name, attr);
    return value.value_case() == proto::AttrValue::VALUE_NOT_SET ? usual : value.f();
  }
  double Epsilon(const std::string& norm) const { return Number(norm, "epsilon", 1e-5); }
  // Tokens of a sequence.
  int64_t Sequence() const {
    const auto it = ops_.find("tokens");
    return it == ops_.end() || it->second->shape().dim_size() != 2
               ? 0
               : it->second->shape().dim(1).size();
  }
  // Blocks that have a variable: "h.0.X", "h.1.X", ...
  int64_t Blocks(const std::string& variable) const {
    int64_t count = 0;
    while (Has(absl::StrCat("h.", count, ".", variable))) ++count;
    return count;
  }

 private:
  std::map<std::string, const proto::Op*> ops_;
};

constexpr char kGraphHint[] = "export a model of `oneflow model` or `oneflow import`";

std::string NameGraph(const proto::Graph& graph) { return "graph \"" + graph.name() + "\""; }

absl::StatusOr<proto::Model> ReadGptGraph(const proto::Graph& graph, const GraphFacts& facts) {
  const Dims wte = facts.Sizes("wte"), wpe = facts.Sizes("wpe");
  const Dims qkv = facts.Sizes("h.0.attn.qkv.weight");
  if (wte.size() != 2 || wpe.size() != 2 || qkv.size() != 4) {
    return InputError(NameGraph(graph), "is no model of a family that has files of Hugging Face",
                      kGraphHint);
  }
  proto::Model model;
  model.set_family("gpt");
  model.set_layers(facts.Blocks("attn.qkv.weight"));
  model.set_heads(qkv[2]);
  model.set_hidden(wte[1]);
  model.set_sequence(wpe[0]);
  model.set_vocab(wte[0]);
  model.set_tied(!facts.Has("head.weight"));
  model.set_norm_epsilon(facts.Epsilon("ln_f"));
  model.set_bias(facts.Has("ln_f.bias"));
  model.set_dropout(facts.Attr("embed.drop", "rate").f());
  model.set_masks(facts.Kind("embed.drop") == "stored_dropout" ? "stored" : "recomputed");
  model.set_attention(facts.Kind("h.0.attn.core") == "causal_attention" ? "fused" : "unfused");
  return model;
}

// Where the frequencies of rotary positions come from.
void ReadFrequencies(const GraphFacts& facts, const std::string& rotary, proto::Model* model) {
  const int64_t rotated = facts.Attr(rotary, "rotated").i();
  model->set_rotary_share(rotated > 0 ? RotaryShare(rotated, model->head_dim()) : 1);
  model->set_theta(facts.Attr(rotary, "theta").f());
  proto::RopeScaling& scaling = *model->mutable_rope_scaling();
  const double factor = facts.Attr(rotary, "scale_factor").f();
  if (factor == 0) return;
  scaling.set_factor(factor);
  const std::string kind = facts.Attr(rotary, "scaling").s();
  if (kind == "linear") {
    scaling.set_kind(proto::RopeScaling::LINEAR);
    return;
  }
  scaling.set_low(facts.Attr(rotary, "low_frequency_factor").f());
  scaling.set_high(facts.Attr(rotary, "high_frequency_factor").f());
  scaling.set_positions(facts.Attr(rotary, "original_positions").i());
  if (kind != "yarn") return;
  scaling.set_kind(proto::RopeScaling::YARN);
  if (facts.Attr(rotary, "exact").b()) scaling.set_exact(true);
  const double attention = facts.Number(rotary, "attention_factor", 1);
  if (attention != 0.1 * std::log(factor) + 1) scaling.set_attention_factor(attention);
}

void ReadRoute(const GraphFacts& facts, const std::string& at, proto::Model* model) {
  const std::string route = at + ".route";
  model->set_experts_per_token(facts.Attr(route, "choices").i());
  model->set_norm_topk_prob(facts.Attr(route, "normalized").b());
  model->set_slots(facts.Attr(route, "capacity").f());
  model->set_slot_groups(facts.Attr(route, "groups").i());
  model->set_aux_loss_coeff(facts.Attr(route, "balance").f());
  model->set_z_loss_coeff(facts.Attr(route, "z").f());
  model->set_routed_positions(facts.Attr(route, "run").i());
  model->set_bias_rate(facts.Attr(route, "bias_rate").f());
  model->set_routed_scale(facts.Number(route, "scale", 1));
  const std::string scores = facts.Attr(route, "scores").s();
  model->set_scores(scores.empty() ? "softmax" : scores);
  model->set_router_bias(facts.Has(at + ".router.offset"));
  model->set_expert_bias(facts.Has(at + ".experts.up.bias"));
  const Dims shared = facts.Sizes(at + ".shared.gate.weight");
  model->set_shared_inner(shared.empty() ? 0 : shared.back());
}

// The numbers of block `at`, in a model whose numbers are `model` elsewhere. False: it is none.
bool ReadBlock(const GraphFacts& facts, const std::string& at, proto::Model* model) {
  const std::string attention = at + ".attn", mlp = at + ".mlp", core = attention + ".core";
  const Dims qkv = facts.Sizes(attention + ".qkv.weight");
  const Dims experts = facts.Sizes(mlp + ".experts.gate.weight");
  const Dims gate = experts.empty() ? facts.Sizes(mlp + ".gate.weight") : experts;
  if (qkv.size() != 4 || gate.size() != (experts.empty() ? 2 : 3)) return false;
  const bool before = facts.Has(at + ".norm_1.weight");
  const bool after = facts.Has(attention + ".norm.weight");
  model->set_norms(before && after ? "both" : after ? "after" : "before");
  const std::string norm = before ? at + ".norm_1" : attention + ".norm";
  model->set_norm_epsilon(facts.Epsilon(norm));
  model->set_norm_offset(facts.Number(norm, "offset", 0));
  model->set_groups(qkv[1]);
  model->set_heads(qkv[1] * (qkv[2] - 2));
  model->set_head_dim(qkv[3]);
  model->set_qkv_bias(facts.Has(attention + ".qkv.bias"));
  model->set_proj_bias(facts.Has(attention + ".proj.bias"));
  const bool all = facts.Has(attention + ".q_norm_all.weight");
  model->set_qk_norm(all || facts.Has(attention + ".q_norm.weight"));
  model->set_norm_all_heads(all);
  if (const std::string rotary = attention + ".q_rotary"; facts.Has(rotary)) {
    ReadFrequencies(facts, rotary, model);
  } else {
    model->set_rotary_share(0);
  }
  model->set_window(facts.Attr(core, "window").i());
  model->set_attention_scale(facts.Attr(core, "scale").f());
  model->set_attention_cap(facts.Attr(core, "soft_cap").f());
  model->set_sinks(facts.Attr(core, "sinks").b());
  model->set_inner(gate.back());
  model->set_experts(experts.empty() ? 0 : experts[0]);
  const std::string act = mlp + (experts.empty() ? ".act" : ".experts.act");
  const std::string activation = facts.Attr(act, "activation").s();
  model->set_activation(activation.empty() ? "silu" : activation);
  if (!experts.empty()) ReadRoute(facts, mlp, model);
  return true;
}

// The block whose numbers are the model's own: of the most common ones, with experts if any has,
// and with rotary positions, whose theta a block without them does not say.
const proto::Model& FindCommon(const std::vector<proto::Model>& blocks) {
  std::map<std::string, int> counts;
  const auto rank = [&](const proto::Model& block) {
    return std::tuple(block.experts() > 0, block.has_theta(), counts[block.SerializeAsString()],
                      block.window() == 0);
  };
  for (const proto::Model& block : blocks) ++counts[block.SerializeAsString()];
  return *std::max_element(blocks.begin(), blocks.end(),
                           [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
}

absl::StatusOr<proto::Model> ReadDecoderGraph(const proto::Graph& graph, const GraphFacts& facts) {
  const Dims wte = facts.Sizes("wte");
  std::vector<proto::Model> blocks(facts.Blocks("attn.qkv.weight"));
  bool known = wte.size() == 2 && !blocks.empty();
  for (size_t i = 0; known && i < blocks.size(); ++i) {
    known = ReadBlock(facts, absl::StrCat("h.", i), &blocks[i]);
  }
  if (!known) return InputError(NameGraph(graph), "has no blocks of a decoder", kGraphHint);
  proto::Model model = FindCommon(blocks);
  std::vector<proto::Model> own;
  for (const proto::Model& block : blocks) own.push_back(ListChanges(model, block));
  model.set_family(graph.family().empty() ? "llama" : graph.family());
  model.set_vocab(wte[0]);
  model.set_hidden(wte[1]);
  model.set_layers(static_cast<int64_t>(blocks.size()));
  model.set_sequence(facts.Sequence());
  model.set_tied(!facts.Has("head.weight"));
  model.set_embedding_scale(facts.Number("embed", "scale", 1));
  model.set_logit_cap(facts.Attr("logits", "cap").f());
  if (facts.Has("mtp.loss")) {
    model.set_next_tokens(1);
    model.set_next_tokens_coeff(facts.Attr("mtp.loss", "factor").f());
  }
  SetBlocks(own, &model);
  return model;
}

}  // namespace

absl::StatusOr<proto::Model> DescribeModel(const proto::Graph& graph) {
  const GraphFacts facts(graph);
  const bool is_gpt = !facts.Has("norm_f.weight");
  ASSIGN_OR_RETURN(const proto::Model said,
                   is_gpt ? ReadGptGraph(graph, facts) : ReadDecoderGraph(graph, facts));
  absl::StatusOr<proto::Model> model = CompleteModel(said);
  RETURN_IF_ERROR(Annotate(model.status(), NameGraph(graph)));
  const std::string difference = FindDifference(graph, BuildModel(*model, graph.name()));
  if (difference.empty()) return model;
  return InputError(NameGraph(graph),
                    absl::StrCat("differs from a model of the family ", model->family(),
                                 ", as `oneflow model` makes it, in ", difference),
                    kGraphHint);
}

}  // namespace oneflow
