#include "training/hugging_face/model_graph.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/model/llama.h"
#include "oneflow_core/tensor/shape.h"
#include "training/hugging_face/compare_graphs.h"

namespace oneflow {
namespace {

// What a graph says, by name.
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
  double Number(const std::string& name, const std::string& attr, double otherwise) const {
    const proto::AttrValue* value = Find(name, attr);
    return value == nullptr ? otherwise : value->f();
  }
  int64_t Integer(const std::string& name, const std::string& attr, int64_t otherwise) const {
    const proto::AttrValue* value = Find(name, attr);
    return value == nullptr ? otherwise : value->i();
  }
  bool Bool(const std::string& name, const std::string& attr, bool otherwise) const {
    const proto::AttrValue* value = Find(name, attr);
    return value == nullptr ? otherwise : value->b();
  }
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
  const proto::AttrValue* Find(const std::string& name, const std::string& attr) const {
    const auto it = ops_.find(name);
    if (it == ops_.end()) return nullptr;
    const auto found = it->second->attr().find(attr);
    return found == it->second->attr().end() ? nullptr : &found->second;
  }

  std::map<std::string, const proto::Op*> ops_;
};

constexpr char kGraphHint[] = "export a model of `oneflow model` or `oneflow import`";

std::string NameGraph(const proto::Graph& graph) { return "graph \"" + graph.name() + "\""; }

absl::Status CheckSameGraph(const proto::Graph& graph, const proto::Graph& rebuilt,
                            const char* model) {
  const std::string difference = FindDifference(graph, rebuilt);
  if (difference.empty()) return absl::OkStatus();
  return InputError(
      NameGraph(graph),
      absl::StrCat("differs from ", model, " of transformers, as `oneflow model` has ", "it, in ",
                   difference),
      kGraphHint);
}

GptConfig MakeGptConfig(const HuggingFaceConfig& config, const ModelGraphOptions& options) {
  GptConfig gpt;
  gpt.name = config.model_type;
  gpt.layers = config.layers;
  gpt.heads = config.heads;
  gpt.hidden = config.hidden;
  gpt.sequence = config.positions;
  gpt.vocab = options.vocab > 0 ? options.vocab : config.vocab;
  gpt.tied = config.tied;
  gpt.epsilon = config.norm_epsilon;
  return gpt;
}

LlamaConfig MakeLlamaConfig(const HuggingFaceConfig& config, const ModelGraphOptions& options) {
  LlamaConfig llama;
  llama.name = config.model_type;
  llama.layers = config.layers;
  llama.hidden = config.hidden;
  llama.inner = config.inner;
  llama.heads = config.heads;
  llama.groups = config.groups;
  llama.head_dim = config.head_dim;
  llama.sequence = options.sequence > 0 ? options.sequence : config.positions;
  llama.vocab = options.vocab > 0 ? options.vocab : config.vocab;
  llama.theta = config.rotary_theta;
  if (config.scaling) {
    llama.scaling = {config.scaling->factor, config.scaling->low_frequency_factor,
                     config.scaling->high_frequency_factor, config.scaling->original_positions};
  }
  llama.epsilon = config.norm_epsilon;
  llama.tied = config.tied;
  llama.qkv_bias = config.has_qkv_bias();
  llama.qk_norm = config.has_qk_norm();
  llama.window = config.window;
  if (config.has_experts()) {
    llama.experts = config.experts;
    llama.choices = config.choices;
    llama.normalized = config.normalized;
    llama.balance = 0;
  }
  return llama;
}

constexpr char kRoute[] = "h.0.mlp.route";

// Sets model_type to that of a block with experts; `bias` and `norm` are those of attention.
absl::Status DescribeExperts(const proto::Graph& graph, const GraphFacts& facts, bool bias,
                             bool norm, HuggingFaceConfig& config) {
  config.choices = facts.Integer(kRoute, "choices", 0);
  config.normalized = facts.Bool(kRoute, "normalized", false);
  config.model_type = norm ? "qwen3_moe" : "mixtral";
  std::string what;
  if (bias) what = "biases of queries, keys and values";
  if (facts.Has("h.0.mlp.shared.gate.weight")) what = "an MLP that every token takes";
  if (facts.Has("h.0.mlp.router.bias")) what = "biases of their choice";
  if (!norm && !config.normalized) {
    what = "weights of choices that do not add up to 1, and no norms of queries and keys";
  }
  if (what.empty()) return absl::OkStatus();
  return InputError(
      NameGraph(graph),
      "has experts and " + what + "; no model of transformers that is known here has both",
      kGraphHint);
}

absl::StatusOr<HuggingFaceConfig> DescribeLlama(const proto::Graph& graph) {
  const GraphFacts facts(graph);
  const Dims wte = facts.Sizes("wte"), qkv = facts.Sizes("h.0.attn.qkv.weight");
  const Dims experts = facts.Sizes("h.0.mlp.experts.gate.weight");
  const Dims gate = experts.empty() ? facts.Sizes("h.0.mlp.gate.weight") : experts;
  if (wte.size() != 2 || qkv.size() != 4 || gate.size() != (experts.empty() ? 2 : 3)) {
    return InputError(NameGraph(graph), "has no blocks of the family llama", kGraphHint);
  }
  HuggingFaceConfig config;
  config.vocab = wte[0];
  config.hidden = wte[1];
  config.inner = gate.back();
  config.experts = experts.empty() ? 0 : experts[0];
  config.layers = facts.Blocks("attn.qkv.weight");
  config.groups = qkv[1];
  config.heads = qkv[1] * (qkv[2] - 2);
  config.head_dim = qkv[3];
  config.positions = facts.Sequence();
  config.norm_epsilon = facts.Number("norm_f", "epsilon", 1e-5);
  const std::string rotary = "h.0.attn.q_rotary";
  config.rotary_theta = facts.Number(rotary, "theta", 0);
  if (const double factor = facts.Number(rotary, "scale_factor", 0); factor > 0) {
    config.scaling = {factor, facts.Number(rotary, "low_frequency_factor", 0),
                      facts.Number(rotary, "high_frequency_factor", 0),
                      facts.Integer(rotary, "original_positions", 0)};
  }
  config.window = facts.Integer("h.0.attn.core", "window", 0);
  config.tied = !facts.Has("head.weight");
  const bool bias = facts.Has("h.0.attn.qkv.bias"), norm = facts.Has("h.0.attn.q_norm.weight");
  if (bias && norm) {
    return InputError(NameGraph(graph),
                      "has biases of queries, keys and values, and norms of queries and keys; no "
                      "model of transformers that is known here has both",
                      kGraphHint);
  }
  config.model_type = norm ? "qwen3" : bias ? "qwen2" : config.window > 0 ? "mistral" : "llama";
  if (config.experts > 0) RETURN_IF_ERROR(DescribeExperts(graph, facts, bias, norm, config));
  LlamaConfig llama = MakeLlamaConfig(config, {});
  llama.name = graph.name();
  // What is of training alone.
  llama.capacity = facts.Number(kRoute, "capacity", 0);
  llama.balance = facts.Number(kRoute, "balance", 0);
  llama.z = facts.Number(kRoute, "z", 0);
  llama.run = facts.Integer(kRoute, "run", 0);
  RETURN_IF_ERROR(Annotate(CheckLlamaConfig(llama), NameGraph(graph)));
  RETURN_IF_ERROR(CheckSameGraph(graph, BuildLlama(llama), "Llama"));
  return config;
}

absl::StatusOr<HuggingFaceConfig> DescribeGpt(const proto::Graph& graph) {
  const GraphFacts facts(graph);
  const Dims wte = facts.Sizes("wte"), wpe = facts.Sizes("wpe");
  const Dims qkv = facts.Sizes("h.0.attn.qkv.weight");
  const std::string where = NameGraph(graph);
  if (wte.size() != 2 || wpe.size() != 2 || qkv.size() != 4) {
    return InputError(where, "is no model of a family that has files of Hugging Face", kGraphHint);
  }
  if (!facts.Has("ln_f.bias")) {
    return InputError(where, "has no biases, and GPT-2 of transformers has", "");
  }
  GptConfig gpt;
  gpt.name = graph.name();
  gpt.layers = facts.Blocks("attn.qkv.weight");
  gpt.heads = qkv[2];
  gpt.hidden = wte[1];
  gpt.sequence = wpe[0];
  gpt.vocab = wte[0];
  gpt.tied = !facts.Has("head.weight");
  gpt.epsilon = facts.Number("ln_f", "epsilon", 1e-5);
  gpt.dropout = facts.Number("embed.drop", "rate", 0);
  gpt.stored_masks = facts.Kind("embed.drop") == "stored_dropout";
  gpt.fused_attention = facts.Kind("h.0.attn.core") == "causal_attention";
  RETURN_IF_ERROR(Annotate(CheckGptConfig(gpt), where));
  RETURN_IF_ERROR(CheckSameGraph(graph, BuildGpt(gpt), "GPT-2"));
  HuggingFaceConfig config;
  config.model_type = "gpt2";
  config.vocab = gpt.vocab;
  config.layers = gpt.layers;
  config.hidden = gpt.hidden;
  config.inner = 4 * gpt.hidden;
  config.heads = config.groups = gpt.heads;
  config.head_dim = gpt.hidden / gpt.heads;
  config.positions = gpt.sequence;
  config.norm_epsilon = gpt.epsilon;
  config.tied = gpt.tied;
  config.dropout = gpt.dropout;
  return config;
}

}  // namespace

absl::StatusOr<proto::Graph> BuildModelGraph(const HuggingFaceConfig& config,
                                             const ModelGraphOptions& options) {
  if (options.sequence > config.positions) {
    return InputError(
        absl::StrCat("--sequence=", options.sequence),
        absl::StrCat("is more than the ", config.positions, " positions of the model"),
        "leave it out, or use a smaller number");
  }
  const std::string where = "config.json, in the words of `oneflow model`";
  if (!config.is_gpt2()) {
    const LlamaConfig llama = MakeLlamaConfig(config, options);
    RETURN_IF_ERROR(Annotate(CheckLlamaConfig(llama), where));
    return BuildLlama(llama);
  }
  if (options.sequence > 0 && options.sequence != config.positions) {
    return InputError(
        absl::StrCat("--sequence=", options.sequence),
        absl::StrCat("is not ", config.positions, ", for which this model has embedded positions"),
        "leave it out");
  }
  const GptConfig gpt = MakeGptConfig(config, options);
  RETURN_IF_ERROR(Annotate(CheckGptConfig(gpt), where));
  return BuildGpt(gpt);
}

absl::StatusOr<HuggingFaceConfig> DescribeModelGraph(const proto::Graph& graph) {
  return GraphFacts(graph).Has("norm_f.weight") ? DescribeLlama(graph) : DescribeGpt(graph);
}

const FamilyFiles& FindFiles(const HuggingFaceConfig& config) {
  if (config.is_gpt2()) return GptFiles();
  if (!config.has_experts()) return LlamaFiles();
  return config.model_type == "mixtral" ? MixtralFiles() : Qwen3MoeFiles();
}

}  // namespace oneflow
