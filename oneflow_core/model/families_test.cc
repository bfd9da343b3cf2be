#include "oneflow_core/model/families.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/model/llama.h"

namespace oneflow {
namespace {

std::string FoundFamily(const Graph& graph) {
  const auto family = FindFamily(graph);
  if (!family.ok()) return std::string(ToStd(family.status().message()));
  return *family ? std::string((*family)->name) : "none";
}

Graph Tiny(const proto::Graph& graph) { return *GraphFromProto(graph, "graph"); }

}  // namespace

TEST_CASE("a graph states its family; the variables tell that of an old file") {
  Graph gpt = Tiny(BuildGpt(*GptPreset("tiny")));
  Graph llama = Tiny(BuildLlama(*LlamaPreset("llama-tiny")));
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
        "graph \"tiny\": is of family \"bert\"; the families are gpt, llama; leave the field out "
        "for another model");
}

TEST_CASE("each variable has tensors in files, and each row of files is one of the variables") {
  LlamaConfig qwen = *LlamaPreset("llama-tiny");
  qwen.tied = false, qwen.qkv_bias = true, qwen.qk_norm = true;
  GptConfig gpt = *GptPreset("tiny");
  gpt.tied = false;
  LlamaConfig mixture = qwen;
  mixture.experts = 4, mixture.shared = 8;
  const std::vector<std::vector<Graph>> families = {
      {Tiny(BuildGpt(gpt))}, {Tiny(BuildLlama(qwen)), Tiny(BuildLlama(mixture))}};
  for (const std::vector<Graph>& models : families) {
    const Family family = **FindFamily(models[0]);
    std::set<std::string> names;
    for (const TensorSplit& split : family.splits) {
      const std::string name = VariableName(split.variable, 1);
      INFO(name);
      int rank = 0;
      for (const Graph& graph : models) {
        const Op* op = graph.FindOp(name);
        if (op != nullptr) rank = graph.tensors[op->outputs[0]].shape.rank();
      }
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
    for (const std::string& preset : family.presets) CHECK(names.insert(preset).second);
  }
}

}  // namespace oneflow
