#include "training/hugging_face/model_graph.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/tensor/shape.h"
#include "training/hugging_face/compare_graphs.h"

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
  double Epsilon(const std::string& norm) const {
    const double epsilon = Attr(norm, "epsilon").f();
    return epsilon > 0 ? epsilon : 1e-5;
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
  std::map<std::string, const proto::Op*> ops_;
};

constexpr char kGraphHint[] = "export a model of `oneflow model` or `oneflow import`";

std::string NameGraph(const proto::Graph& graph) { return "graph \"" + graph.name() + "\""; }

// `said` must be the model of the graph: `name` is its family's in transformers.
absl::Status CheckSameGraph(const proto::Graph& graph, const proto::Model& said, const char* name) {
  absl::StatusOr<proto::Model> model = CompleteModel(said);
  RETURN_IF_ERROR(Annotate(model.status(), NameGraph(graph)));
  const std::string difference = FindDifference(graph, BuildModel(*model, graph.name()));
  if (difference.empty()) return absl::OkStatus();
  return InputError(NameGraph(graph),
                    absl::StrCat("differs from ", name, " of transformers, as `oneflow model` has ",
                                 "it, in ", difference),
                    kGraphHint);
}

constexpr char kRoute[] = "h.0.mlp.route";

// The model type of a block with experts.
absl::StatusOr<std::string> DescribeExperts(const proto::Graph& graph, const GraphFacts& facts,
                                            const proto::Model& model) {
  std::string what;
  if (model.qkv_bias()) what = "biases of queries, keys and values";
  if (facts.Has("h.0.mlp.shared.gate.weight")) what = "an MLP that every token takes";
  if (facts.Has("h.0.mlp.router.bias")) what = "biases of their choice";
  if (!model.qk_norm() && !model.norm_topk_prob()) {
    what = "weights of choices that do not add up to 1, and no norms of queries and keys";
  }
  if (what.empty()) return model.qk_norm() ? "qwen3_moe" : "mixtral";
  return InputError(
      NameGraph(graph),
      "has experts and " + what + "; no model of transformers that is known here has both",
      kGraphHint);
}

// The numbers of a mixture that act in training alone.
void ReadRouting(const GraphFacts& facts, proto::Model* model) {
  model->set_slots(facts.Attr(kRoute, "capacity").f());
  model->set_slot_groups(facts.Attr(kRoute, "groups").i());
  model->set_aux_loss_coeff(facts.Attr(kRoute, "balance").f());
  model->set_z_loss_coeff(facts.Attr(kRoute, "z").f());
  model->set_routed_positions(facts.Attr(kRoute, "run").i());
}

absl::StatusOr<proto::Model> ReadLlamaGraph(const proto::Graph& graph, const GraphFacts& facts) {
  const Dims wte = facts.Sizes("wte"), qkv = facts.Sizes("h.0.attn.qkv.weight");
  const Dims experts = facts.Sizes("h.0.mlp.experts.gate.weight");
  const Dims gate = experts.empty() ? facts.Sizes("h.0.mlp.gate.weight") : experts;
  if (wte.size() != 2 || qkv.size() != 4 || gate.size() != (experts.empty() ? 2 : 3)) {
    return InputError(NameGraph(graph), "has no blocks of the family llama", kGraphHint);
  }
  proto::Model model;
  model.set_family("llama");
  model.set_vocab(wte[0]);
  model.set_hidden(wte[1]);
  model.set_inner(gate.back());
  model.set_experts(experts.empty() ? 0 : experts[0]);
  model.set_layers(facts.Blocks("attn.qkv.weight"));
  model.set_groups(qkv[1]);
  model.set_heads(qkv[1] * (qkv[2] - 2));
  model.set_head_dim(qkv[3]);
  model.set_sequence(facts.Sequence());
  model.set_norm_epsilon(facts.Epsilon("norm_f"));
  const std::string rotary = "h.0.attn.q_rotary";
  model.set_theta(facts.Attr(rotary, "theta").f());
  proto::RopeScaling& scaling = *model.mutable_rope_scaling();
  if (const double factor = facts.Attr(rotary, "scale_factor").f(); factor > 0) {
    scaling.set_factor(factor);
    scaling.set_low(facts.Attr(rotary, "low_frequency_factor").f());
    scaling.set_high(facts.Attr(rotary, "high_frequency_factor").f());
    scaling.set_positions(facts.Attr(rotary, "original_positions").i());
  }
  model.set_window(facts.Attr("h.0.attn.core", "window").i());
  model.set_tied(!facts.Has("head.weight"));
  model.set_qkv_bias(facts.Has("h.0.attn.qkv.bias"));
  model.set_qk_norm(facts.Has("h.0.attn.q_norm.weight"));
  if (model.experts() == 0) return model;
  model.set_experts_per_token(facts.Attr(kRoute, "choices").i());
  model.set_norm_topk_prob(facts.Attr(kRoute, "normalized").b());
  return model;
}

absl::StatusOr<HuggingFaceConfig> DescribeLlama(const proto::Graph& graph) {
  const GraphFacts facts(graph);
  HuggingFaceConfig config;
  ASSIGN_OR_RETURN(config.model, ReadLlamaGraph(graph, facts));
  const proto::Model& model = config.model;
  if (model.qkv_bias() && model.qk_norm()) {
    return InputError(NameGraph(graph),
                      "has biases of queries, keys and values, and norms of queries and keys; no "
                      "model of transformers that is known here has both",
                      kGraphHint);
  }
  config.model_type = model.qk_norm()      ? "qwen3"
                      : model.qkv_bias()   ? "qwen2"
                      : model.window() > 0 ? "mistral"
                                           : "llama";
  if (model.experts() > 0) {
    ASSIGN_OR_RETURN(config.model_type, DescribeExperts(graph, facts, model));
  }
  proto::Model trained = model;
  if (model.experts() > 0) ReadRouting(facts, &trained);
  RETURN_IF_ERROR(CheckSameGraph(graph, trained, "Llama"));
  return config;
}

// With what acts in training alone.
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

absl::StatusOr<HuggingFaceConfig> DescribeGpt(const proto::Graph& graph) {
  HuggingFaceConfig config = {.model_type = "gpt2"};
  ASSIGN_OR_RETURN(const proto::Model trained, ReadGptGraph(graph, GraphFacts(graph)));
  if (!trained.bias()) {
    return InputError(NameGraph(graph), "has no biases, and GPT-2 of transformers has", "");
  }
  RETURN_IF_ERROR(CheckSameGraph(graph, trained, "GPT-2"));
  config.model = trained;
  config.model.clear_bias();
  config.model.clear_masks();
  config.model.clear_attention();
  return config;
}

}  // namespace

absl::StatusOr<proto::Graph> BuildModelGraph(const HuggingFaceConfig& config,
                                             const ModelGraphOptions& options) {
  proto::Model said = config.model;
  if (options.sequence > said.sequence()) {
    return InputError(absl::StrCat("--sequence=", options.sequence),
                      absl::StrCat("is more than the ", said.sequence(), " positions of the model"),
                      "leave it out, or use a smaller number");
  }
  if (config.is_gpt2() && options.sequence > 0 && options.sequence != said.sequence()) {
    return InputError(
        absl::StrCat("--sequence=", options.sequence),
        absl::StrCat("is not ", said.sequence(), ", for which this model has embedded positions"),
        "leave it out");
  }
  if (options.sequence > 0) said.set_sequence(options.sequence);
  if (options.vocab > 0) said.set_vocab(options.vocab);
  said.clear_dropout();
  if (said.experts() > 0) said.set_aux_loss_coeff(0);
  const absl::StatusOr<proto::Model> model = CompleteModel(said);
  RETURN_IF_ERROR(Annotate(model.status(), "config.json, in the words of `oneflow model`"));
  return BuildModel(*model, config.model_type);
}

absl::StatusOr<HuggingFaceConfig> DescribeModelGraph(const proto::Graph& graph) {
  return GraphFacts(graph).Has("norm_f.weight") ? DescribeLlama(graph) : DescribeGpt(graph);
}

absl::StatusOr<proto::Model> DescribeModel(const proto::Graph& graph) {
  const GraphFacts facts(graph);
  const bool llama = facts.Has("norm_f.weight");
  ASSIGN_OR_RETURN(proto::Model model,
                   llama ? ReadLlamaGraph(graph, facts) : ReadGptGraph(graph, facts));
  if (model.experts() > 0) {
    ReadRouting(facts, &model);
    const Dims shared = facts.Sizes("h.0.mlp.shared.gate.weight");
    if (!shared.empty()) model.set_shared_inner(shared.back());
    const std::string scores = facts.Attr(kRoute, "scores").s();
    if (!scores.empty()) model.set_scores(scores);
    model.set_bias_rate(facts.Attr(kRoute, "bias_rate").f());
  }
  RETURN_IF_ERROR(CheckSameGraph(graph, model, "a model of a family"));
  return CompleteModel(model);
}

const FamilyFiles& FindFiles(const HuggingFaceConfig& config) {
  if (config.is_gpt2()) return GptFiles();
  if (config.model.experts() == 0) return LlamaFiles();
  return config.model_type == "mixtral" ? MixtralFiles() : Qwen3MoeFiles();
}

absl::StatusOr<std::vector<MappedVariable>> MapModel(const ModelFolder& folder,
                                                     const HuggingFaceConfig& config,
                                                     const proto::Graph& graph) {
  return MapVariables(folder, FindFiles(config), ListVariables(graph), config.model.vocab(),
                      config.model.tied());
}

std::string FindType(const std::vector<MappedVariable>& variables) {
  int64_t elements[3] = {};
  for (const MappedVariable& variable : variables) {
    for (const MappedPart& part : variable.parts) {
      elements[static_cast<size_t>(ReadType(part))] += CountElements(part);
    }
  }
  const auto* const most = std::max_element(std::begin(elements), std::end(elements));
  return std::string(Name(static_cast<FileType>(most - elements)));
}

ModelNotes MakeNotes(const HuggingFaceConfig& config,
                     const std::vector<MappedVariable>& variables) {
  ModelNotes notes = {.model_type = config.model_type,
                      .dtype = FindType(variables),
                      .vocab = config.model.vocab(),
                      .positions = config.model.sequence(),
                      .end_ids = config.end_ids,
                      .begin_id = config.begin_id};
  const FamilyFiles& files = FindFiles(config);
  for (const MappedVariable& variable : variables) {
    int64_t block = -1;
    FindParts(files, variable.name, &block);
    for (const MappedPart& part : variable.parts) {
      const std::string type(Name(ReadType(part)));
      if (type == notes.dtype) continue;
      notes.dtypes[FileName(files, TensorName(part.part, block))] = type;
    }
  }
  return notes;
}

}  // namespace oneflow
