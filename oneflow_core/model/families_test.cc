#include "oneflow_core/model/families.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/model.h"

namespace oneflow {
namespace {

std::string FoundFamily(const Graph& graph) {
  const auto family = FindFamily(graph);
  if (!family.ok()) return std::string(ToStd(family.status().message()));
  return *family != nullptr ? std::string((*family)->name) : "none";
}

Graph Tiny(const proto::Graph& graph) { return *GraphFromProto(graph, "graph"); }

}  // namespace

TEST_CASE("a graph states its family; the variables tell that of an old file") {
  Graph gpt = Tiny(BuildModel(MakeModel("family: 'gpt' preset: 'tiny'")));
  Graph llama = Tiny(BuildModel(MakeModel("family: 'llama' preset: 'llama-tiny'")));
  CHECK(gpt.family == "gpt");
  CHECK(llama.family == "llama");
  for (const bool stated : {true, false}) {
    CHECK(FoundFamily(gpt) == "gpt");
    CHECK(FoundFamily(llama) == "llama");
    if (stated) gpt.family.clear(), llama.family.clear();
  }
  CHECK(FoundFamily(*ParseGraphText(
            R"(op { name: "wte" kind: "input" shape { dim { size: 8 } } })")) == "none");
  gpt.family = "bert";
  CHECK(FoundFamily(gpt) ==
        "graph \"tiny\": is of family \"bert\"; the families are gpt, llama, gemma, gpt_oss, olmo, "
        "glm; leave the field out for another model");
}

TEST_CASE("each variable has tensors in files, and each row of files is one of the variables") {
  proto::Model qwen = MakeModel("family: 'llama' preset: 'llama-tiny'");
  qwen.set_tied(false), qwen.set_qkv_bias(true), qwen.set_qk_norm(true);
  proto::Model gpt = MakeModel("family: 'gpt' preset: 'tiny'");
  gpt.set_tied(false);
  proto::Model mixture = qwen;
  mixture.set_experts(3);
  // What only some decoders of these files have.
  proto::Model over_heads = qwen, mixture_over_heads = mixture;
  for (proto::Model* model : {&over_heads, &mixture_over_heads}) {
    model->set_norm_all_heads(true), model->set_proj_bias(true);
  }
  const auto list = [](const FamilyFiles& files) {
    std::set<std::string> known;
    for (const VariableParts& row : files.variables) known.insert(VariableName(row.variable, 1));
    return known;
  };
  std::map<const FamilyFiles*, std::set<std::string>> unknown;
  const std::pair<const FamilyFiles*, Graph> models[] = {
      {&LlamaFiles(), Tiny(BuildModel(over_heads))},
      {&MixtralFiles(), Tiny(BuildModel(mixture_over_heads))},
      {&Qwen3MoeFiles(), Tiny(BuildModel(mixture_over_heads))},
      {&GptFiles(), Tiny(BuildModel(gpt))},
      {&LlamaFiles(), Tiny(BuildModel(qwen))},
      {&MixtralFiles(), Tiny(BuildModel(mixture))},
      {&Qwen3MoeFiles(), Tiny(BuildModel(qwen))},  // its blocks without experts
      {&Qwen3MoeFiles(), Tiny(BuildModel(mixture))}};
  for (const auto& [table, graph] : models) {
    const FamilyFiles& files = *table;
    std::set<std::string>& known = unknown.emplace(table, list(files)).first->second;
    std::set<std::string> tensors;
    for (const Op& op : graph.ops) {
      if (op.kind != "variable") continue;
      int64_t block = 0, elements = 0;
      const VariableParts* row = FindParts(files, op.name, &block);
      INFO(op.name);
      REQUIRE(row != nullptr);
      if (block < 1) known.erase(VariableName(row->variable, 1));
      if (block == 1) known.erase(op.name);
      const Dims& dims = graph.tensors[op.outputs[0]].shape.dims;
      for (const FilePart& part : ListParts(*row, dims)) {
        CHECK(tensors.insert(FileName(files, TensorName(part, block))).second);
        elements += Product(TensorDims(part, dims, 0));
      }
      CHECK(elements == Product(dims));
    }
    if (table == &MixtralFiles()) {
      CHECK(tensors.contains("model.layers.1.block_sparse_moe.experts.2.w2.weight"));
    }
    if (table == &Qwen3MoeFiles()) {
      CHECK(tensors.contains("model.layers.0.mlp.experts.0.up_proj.weight") !=
            tensors.contains("model.layers.0.mlp.up_proj.weight"));
    }
  }
  for (const auto& [table, names] : unknown) CHECK(names == std::set<std::string>());
}

TEST_CASE("each variable of a row is one of the family's models") {
  CHECK(VariableName("h.*.mlp.fc.weight", 12) == "h.12.mlp.fc.weight");
  CHECK(VariableName("wte", 3) == "wte");
  proto::Model qwen = MakeModel("family: 'llama' preset: 'llama-tiny'");
  qwen.set_tied(false), qwen.set_qkv_bias(true);
  proto::Model mixture = qwen;
  mixture.set_experts(4), mixture.set_shared_inner(32), mixture.set_expert_bias(true);
  mixture.set_qk_norm(true), mixture.set_norm_all_heads(true), mixture.set_sinks(true);
  proto::Model further = qwen;
  further.set_next_tokens(1), further.set_norm_all_heads(true), further.set_qk_norm(true);
  further.set_sinks(true);
  mixture.set_next_tokens(1);
  proto::Model gpt = MakeModel("family: 'gpt' preset: 'tiny'");
  gpt.set_tied(false);
  const Graph dense = Tiny(BuildModel(qwen)), experts = Tiny(BuildModel(mixture));
  const Graph ahead = Tiny(BuildModel(further));
  for (const Graph& graph : {Tiny(BuildModel(gpt)), dense}) {
    const Family& family = **FindFamily(graph);
    std::set<std::string> names;
    for (const TensorSplit& split : family.splits) {
      const std::string name = VariableName(split.variable, 1);
      INFO(name);
      const auto has = [&](const Graph& g) { return g.FindOp(name) != nullptr; };
      const Graph& owner = has(graph) ? graph : has(experts) ? experts : ahead;
      const Op* op = owner.FindOp(name);
      REQUIRE(op != nullptr);
      const int rank = owner.tensors[op->outputs[0]].shape.rank();
      CHECK(split.sbp.dim < rank);
      CHECK(split.within_group.value_or(B()).dim < rank);
      CHECK(split.by_expert.value_or(B()).dim < rank);
      CHECK(names.insert(name).second);
    }
  }
}

TEST_CASE("names of families and presets are unique") {
  std::set<std::string> names;
  for (const Family& family : Families()) {
    CHECK(names.insert(std::string(family.name)).second);
    for (const Preset& preset : family.presets) CHECK(names.insert(preset.name).second);
  }
}

}  // namespace oneflow
