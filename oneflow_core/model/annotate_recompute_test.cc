#include "oneflow_core/model/annotate_recompute.h"

#include <catch2/catch.hpp>
#include <string>

#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/model/llama.h"

namespace oneflow {
namespace {

Graph SmallGpt(bool fused = true) {
  GptConfig config;
  config.fused_attention = fused;
  config.layers = 2, config.heads = 2, config.hidden = 16, config.sequence = 8, config.vocab = 32;
  return *GraphFromProto(BuildGpt(config), "gpt");
}

std::string FindScope(const Graph& graph, const std::string& op) {
  return graph.FindOp(op)->recompute;
}

}  // namespace

TEST_CASE("full: every op of a block is of the block's scope; variables and the rest of none") {
  Graph graph = SmallGpt();
  REQUIRE(AnnotateRecompute(&graph, "full").ok());
  CHECK(FindScope(graph, "h.0.ln_1") == "h.0");
  CHECK(FindScope(graph, "h.1.mlp.fc") == "h.1");
  CHECK(FindScope(graph, "h.1.mlp.fc.weight").empty());
  CHECK(FindScope(graph, "ln_f").empty());
  CHECK(FindScope(graph, "logits").empty());
}

TEST_CASE("selective: all of a block but matrix products, each by itself; the user's scope stays") {
  Graph graph = SmallGpt();
  for (Op& op : graph.ops) {
    if (op.name == "h.1.mlp.gelu") op.recompute = "mine";
  }
  REQUIRE(AnnotateRecompute(&graph, "selective").ok());
  CHECK(FindScope(graph, "h.0.ln_1") == "h.0.ln_1");
  CHECK(FindScope(graph, "h.0.attn.core") == "h.0.attn.core");
  CHECK(FindScope(graph, "h.0.mlp.gelu") == "h.0.mlp.gelu");
  CHECK(FindScope(graph, "h.0.mlp.fc").empty());
  CHECK(FindScope(graph, "h.1.mlp.gelu") == "mine");
}

TEST_CASE("attention: its core is one scope, fused or not, and nothing else is computed again") {
  for (const bool fused : {true, false}) {
    Graph graph = SmallGpt(fused);
    REQUIRE(AnnotateRecompute(&graph, "attention,gather").ok());
    CHECK(FindScope(graph, "h.1.attn.core") == "h.1.attn.core");
    if (!fused) CHECK(FindScope(graph, "h.1.attn.core.softmax") == "h.1.attn.core");
    CHECK(FindScope(graph, "h.1.attn.qkv").empty());
    CHECK(FindScope(graph, "h.1.ln_1").empty());
  }
  Graph graph = SmallGpt();
  REQUIRE(AnnotateRecompute(&graph, "gather").ok());
  CHECK(FindScope(graph, "h.1.attn.core").empty());
  CHECK(ParseRecompute("gather")->gather);
  CHECK(ParseRecompute("gather,full")->ops == "full");
  CHECK_FALSE(ParseRecompute("")->gather);
}

TEST_CASE("the words mean the same for Llama") {
  const auto scopes = [](const char* policy) {
    Graph graph = *GraphFromProto(BuildLlama(*LlamaPreset("llama-tiny")), "llama");
    REQUIRE(AnnotateRecompute(&graph, policy).ok());
    std::string text;
    for (const Op& op : graph.ops) {
      if (op.block == 1 && !op.recompute.empty()) text += op.name + ':' + op.recompute + ' ';
    }
    return text;
  };
  CHECK(scopes("attention") == "h.1.attn.core:h.1.attn.core ");
  CHECK(scopes("selective") ==
        "h.1.norm_1:h.1.norm_1 h.1.attn.core:h.1.attn.core h.1.norm_2:h.1.norm_2 "
        "h.1.mlp.act:h.1.mlp.act ");
  CHECK(scopes("full").find("h.1.attn.qkv:h.1 h.1.attn.split:h.1 ") != std::string::npos);
}

TEST_CASE("what cannot be meant is refused") {
  Graph graph = SmallGpt();
  CHECK(AnnotateRecompute(&graph, "").ok());
  CHECK(AnnotateRecompute(&graph, "none").ok());
  CHECK(AnnotateRecompute(&graph, "all").message() ==
        "recompute: \"all\" is not known; use none, attention, selective or full, and gather "
        "beside it");
  CHECK(AnnotateRecompute(&graph, "full,attention").message() ==
        "recompute: full and attention contradict; choose one of none, attention, selective and "
        "full");
  Graph other;
  other.name = "mlp";
  CHECK(AnnotateRecompute(&other, "full").message() ==
        "recompute full: \"mlp\" has no blocks; write `recompute: \"name\"` on the "
        "graph's ops");
}

}  // namespace oneflow
