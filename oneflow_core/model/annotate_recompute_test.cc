#include "oneflow_core/model/annotate_recompute.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/annotate_model.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

Graph SmallGpt(bool fused = true) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_attention(fused ? "fused" : "unfused");
  config.set_layers(2), config.set_heads(2), config.set_hidden(16), config.set_sequence(8),
      config.set_vocab(32);
  return *GraphFromProto(BuildModel(config), "gpt");
}

absl::Status Annotate(Graph* graph, const std::string& policy, int chunks = 1,
                      const BlockClasses& classes = {}) {
  return AnnotateRecompute(graph, MakeRecipe("--recompute=" + policy).recompute(), classes, chunks);
}

std::string FindScope(const Graph& graph, const std::string& op) {
  return graph.FindOp(op)->recompute;
}

// The first letter of each block's policy, and a bar between slices: "fn|a".
std::string Letters(const Graph& graph) {
  std::map<int, std::pair<int, char>> blocks;  // the stage and the letter
  for (const Op& op : graph.ops) {
    if (op.block >= 0 && op.kind != "variable") blocks.try_emplace(op.block, op.stage, 'n');
    const auto says = [&](char letter) { blocks.at(op.block).second = letter; };
    if (op.recompute.empty()) continue;
    if (op.recompute == absl::StrCat("h.", op.block)) {
      says('f');
    } else if (op.name.ends_with(".gelu")) {
      says('s');
    } else if (op.name.ends_with(".core") && blocks.at(op.block).second == 'n') {
      says('a');
    }
  }
  std::string text;
  int slice = 0;
  for (const auto& [block, at] : blocks) {
    for (; slice < at.first; ++slice) text += '|';
    text += at.second;
  }
  return text;
}

}  // namespace

TEST_CASE("full: every op of a block is of the block's scope; variables and the rest of none") {
  Graph graph = SmallGpt();
  REQUIRE(Annotate(&graph, "full").ok());
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
  REQUIRE(Annotate(&graph, "selective").ok());
  CHECK(FindScope(graph, "h.0.ln_1") == "h.0.ln_1");
  CHECK(FindScope(graph, "h.0.attn.core") == "h.0.attn.core");
  CHECK(FindScope(graph, "h.0.mlp.gelu") == "h.0.mlp.gelu");
  CHECK(FindScope(graph, "h.0.mlp.fc").empty());
  CHECK(FindScope(graph, "h.1.mlp.gelu") == "mine");
}

TEST_CASE("attention: its core is one scope, fused or not, and nothing else is computed again") {
  for (const bool fused : {true, false}) {
    Graph graph = SmallGpt(fused);
    REQUIRE(Annotate(&graph, "attention,gather").ok());
    CHECK(FindScope(graph, "h.1.attn.core") == "h.1.attn.core");
    if (!fused) CHECK(FindScope(graph, "h.1.attn.core.softmax") == "h.1.attn.core");
    CHECK(FindScope(graph, "h.1.attn.qkv").empty());
    CHECK(FindScope(graph, "h.1.ln_1").empty());
  }
  Graph graph = SmallGpt();
  REQUIRE(Annotate(&graph, "gather").ok());
  CHECK(FindScope(graph, "h.1.attn.core").empty());
}

TEST_CASE("the words mean the same for Llama") {
  const auto scopes = [](const char* policy) {
    Graph graph =
        *GraphFromProto(BuildModel(MakeModel("family: 'llama' preset: 'llama-tiny'")), "llama");
    REQUIRE(Annotate(&graph, policy).ok());
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

TEST_CASE("in each slice the policies take their blocks in order") {
  const Mesh mesh = *ParseMesh("pipe=2");
  // Along the pipe of 2 stages with 2 chunks each.
  const auto letters = [&](const std::string& policy, const std::vector<int>& layers) {
    proto::Model config = MakeModel("family: 'gpt'");
    config.set_layers(std::accumulate(layers.begin(), layers.end(), 0));
    config.set_heads(2), config.set_hidden(16), config.set_sequence(8), config.set_vocab(32);
    Graph graph = *GraphFromProto(BuildModel(config), "gpt");
    graph.mesh = mesh;
    const proto::Recipe recipe = MakeRecipe("--stage_layers=" + absl::StrJoin(layers, ","));
    REQUIRE(AnnotateModel(&graph, mesh, recipe, /*chunks=*/2).ok());
    const absl::Status status = Annotate(&graph, policy, /*chunks=*/2);
    INFO(status.ToString());
    REQUIRE(status.ok());
    return Letters(graph);
  };
  for (const auto& [policy, want] : std::vector<std::pair<std::string, std::string>>{
           {"none", "nnn|nn|n|nnnn"},
           {"attention", "aaa|aa|a|aaaa"},
           {"full,gather", "fff|ff|f|ffff"},
           {"full:0", "nnn|nn|n|nnnn"},
           {"full:1", "fnn|fn|f|fnnn"},
           {"full:1/1/1/1", "fnn|fn|f|fnnn"},
           {"full:8", "fff|ff|f|ffff"},
           {"full:2,selective:3", "ffs|ff|f|ffss"},
           {"full:3/2/1/0,attention", "fff|ff|f|aaaa"},
           {"full:0/1/0/3,none", "nnn|fn|n|fffn"},
           {"attention,full:1", "faa|fa|f|faaa"},
           {"attention:1,selective,full:1/0/1/2", "afs|as|a|affs"},
           {"none:1/2/0/1,full", "nff|nn|f|nfff"},
           {"full:2147483647", "fff|ff|f|ffff"}}) {
    INFO(policy);
    CHECK(letters(policy, {3, 2, 1, 4}) == want);
  }
  CHECK(letters("full:1,attention", {0, 2, 1, 0}) == "|fa|f");  // slices without blocks
}

// Of a slice with these classes of blocks, "aab", the first letter of each one's policy.
std::string SliceLetters(const std::string& policy, const std::string& blocks, int slice) {
  std::vector<int> classes;
  for (const char letter : blocks) classes.push_back(letter - 'a');
  std::string text;
  for (const std::string& chosen :
       ChoosePolicies(MakeRecipe("--recompute=" + policy).recompute(), slice, classes)) {
    text += chosen[0];
  }
  return text;
}

TEST_CASE("policies of a class take blocks of it first, those of no class what is left") {
  for (const auto& [policy, want] : std::vector<std::pair<std::string, std::string>>{
           {"full@b", "nfnnf|f"},
           {"full@b:1", "nfnnn|f"},
           {"full@a:2", "fnfnn|n"},
           {"full@c", "nnnnn|n"},
           {"full@a:0/1,attention@a,selective", "asaas|s"},
           {"full@b:1,attention", "afaaa|f"},
           {"attention,full@b:1/0", "afaaa|a"},
           {"attention:2,full@b", "afanf|f"},
           {"none@a,full", "nfnnf|f"},
           {"none@a:1,full@a:1,attention@b:1,selective:1", "nafsn|a"},
           {"full@b:1,attention@b,full:1,selective@a:1", "sffna|f"}}) {
    INFO(policy);
    CHECK(SliceLetters(policy, "abaab", 0) + '|' + SliceLetters(policy, "b", 1) == want);
  }
}

TEST_CASE("a policy may be that of a class which the graph has") {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(6), config.set_heads(2), config.set_hidden(16), config.set_sequence(8);
  config.set_vocab(32);
  proto::Graph model = BuildModel(config);
  const auto annotate = [&](const std::string& policy) {
    Graph graph = *GraphFromProto(model, "gpt");
    const absl::Status status = Annotate(&graph, policy, 1, FindBlockClasses(model));
    return status.ok() ? Letters(graph) : std::string(ToStd(status.message()));
  };
  CHECK(annotate("full@b:1") ==
        "--recompute=full@b:1: names a class of blocks that \"gpt\" does not have; its blocks are "
        "6*a; leave @b out");
  for (proto::Op& op : *model.mutable_op()) {
    if (op.kind() == "causal_attention" && op.block() % 3 == 2)
      (*op.mutable_attr())["window"].set_i(4);
  }
  CHECK(annotate("full@b:1,attention@b,selective@a:3") == "ssfsna");
  CHECK(annotate("none@c:1") ==
        "--recompute=none@c:1: names a class of blocks that \"gpt\" does not have; its blocks are "
        "2*(2*a b); name one of these classes");
  for (proto::Op& op : *model.mutable_op()) {
    if (op.has_block() && op.block() == 5) op.set_block(6);
  }
  CHECK(annotate("full@a") ==
        "--recompute=full@a: names a class of blocks that \"gpt\" does not have; its blocks do not "
        "number from 0 without a gap; leave @a out");
}

TEST_CASE("a block of several stages belongs to the first of them") {
  Graph graph = SmallGpt();
  graph.mesh = *ParseMesh("pipe=2");
  for (Op& op : graph.ops) {
    if (op.name.starts_with("h.0.mlp") || op.block == 1) op.stage = 1;
  }
  REQUIRE(Annotate(&graph, "full:0/1").ok());
  CHECK(FindScope(graph, "h.0.mlp.gelu").empty());
  CHECK(FindScope(graph, "h.1.mlp.gelu") == "h.1");
  REQUIRE(Annotate(&graph, "full:1/0").ok());
  CHECK(FindScope(graph, "h.0.mlp.gelu") == "h.0");
}

TEST_CASE("numbers of blocks are one for each slice, and of a graph that has blocks") {
  Graph graph = SmallGpt();
  CHECK(Annotate(&graph, "none").ok());
  const std::string hint = "; write one number for each slice along the pipe, or one for all";
  CHECK(Annotate(&graph, "full:1/2,attention").message() ==
        "--recompute=full:1/2: has 2 numbers; pipe=1: 1 slice" + hint);
  graph.mesh = *ParseMesh("data=2,pipe=4");
  CHECK(Annotate(&graph, "none:1,full:1/2/0").message() ==
        "--recompute=full:1/2/0: has 3 numbers; pipe=4: 4 slices" + hint);
  CHECK(Annotate(&graph, "none:1/2/3/4", /*chunks=*/2).message() ==
        "--recompute=none:1/2/3/4: has 4 numbers; pipe=4, chunks 2: 8 slices" + hint);
  Graph other;
  other.name = "mlp";
  CHECK(Annotate(&other, "none:1,gather").ok());
  CHECK(Annotate(&other, "full:2,attention,gather").message() ==
        "--recompute=full:2,attention: \"mlp\" has no blocks; write `recompute: \"name\"` on the "
        "graph's ops");
}

}  // namespace oneflow
