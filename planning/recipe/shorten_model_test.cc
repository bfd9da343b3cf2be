#include "planning/recipe/shorten_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"

namespace oneflow {
namespace {

using Catch::Contains;

proto::Graph Gpt(int layers, bool full_form) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(layers), config.set_heads(2), config.set_hidden(16), config.set_sequence(8);
  config.set_vocab(64);
  if (full_form) {
    config.set_tied(false), config.set_dropout(.1), config.set_attention("unfused");
  } else {
    config.set_bias(false);
  }
  return BuildModel(config);
}

proto::Model LlamaModel(int layers, int experts) {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(layers), config.set_heads(4), config.set_groups(2), config.set_head_dim(8);
  config.set_hidden(32), config.set_inner(64), config.set_sequence(16), config.set_vocab(64);
  config.set_experts(experts);
  config.set_qkv_bias(true), config.set_qk_norm(true);
  if (experts > 0)
    config.set_shared_inner(32), config.set_bias_rate(.001), config.set_z_loss_coeff(.001);
  return config;
}

proto::Graph Llama(int layers, int experts) { return BuildModel(LlamaModel(layers, experts)); }

// Each op as a text, by name: a builder's order of ops is not that of a graph that was lengthened.
// How a weight of a projection is drawn depends on the number of layers.
std::map<std::string, std::string> Texts(proto::Graph graph) {
  std::map<std::string, std::string> texts;
  for (proto::Op& op : *graph.mutable_op()) {
    const auto value = op.mutable_attr()->find("init_value");
    if (op.name().ends_with("proj.weight")) op.mutable_attr()->erase(value);
    CHECK(texts.emplace(op.name(), op.DebugString()).second);
  }
  graph.clear_op();
  texts[""] = graph.DebugString();
  return texts;
}

template <typename Build>
void CheckLikeBuilt(const Build& build) {
  for (const int have : {1, 2, 5}) {
    for (const int want : {1, 2, 3, 5, 12}) {
      INFO(have << " blocks, then " << want);
      const absl::StatusOr<proto::Graph> graph = WithBlocks(build(have), want);
      REQUIRE(graph.ok());
      CHECK(CountBlocks(*graph) == want);
      CHECK(Texts(*graph) == Texts(build(want)));
    }
  }
}

TEST_CASE("shorten model: shorter and longer models are those that are built") {
  CheckLikeBuilt([](int layers) { return Gpt(layers, false); });
  CheckLikeBuilt([](int layers) { return Gpt(layers, true); });
  CheckLikeBuilt([](int layers) { return Llama(layers, 0); });
}

TEST_CASE("shorten model: blocks of mixtures, whose losses are summed, too") {
  CheckLikeBuilt([](int layers) { return Llama(layers, 4); });
}

TEST_CASE("shorten model: outputs and the loss may be those of a block") {
  proto::Graph graph = Gpt(4, false);
  graph.set_loss("h.3.mlp.add");
  graph.add_output("h.3.mlp.add");
  CHECK(WithBlocks(graph, 2)->loss() == "h.1.mlp.add");
  CHECK(WithBlocks(graph, 6)->loss() == "h.5.mlp.add");
  CHECK(WithBlocks(graph, 6)->output(1) == "h.5.mlp.add");
}

TEST_CASE("shorten model: a graph without blocks has none") {
  proto::Graph graph = Gpt(2, false);
  CHECK(CountBlocks(graph) == 2);
  for (proto::Op& op : *graph.mutable_op()) op.clear_block();
  CHECK(CountBlocks(graph) == 0);
}

proto::Op* FindOp(proto::Graph* graph, const std::string& name) {
  const auto at = std::find_if(graph->mutable_op()->begin(), graph->mutable_op()->end(),
                               [&](const proto::Op& op) { return op.name() == name; });
  REQUIRE(at != graph->mutable_op()->end());
  return &*at;
}

std::string Error(const proto::Graph& graph, int blocks) {
  const absl::Status status = WithBlocks(graph, blocks).status();
  CHECK(ExitCode(status) == 2);
  return std::string(ToStd(status.message()));
}

// Five blocks of which the first and the fourth have no experts, and one has a window.
proto::Graph Patterned() {
  proto::Model config = LlamaModel(5, 4);
  proto::BlockPattern& pattern = *config.mutable_blocks();
  pattern.add_classes()->mutable_numbers()->set_experts(0);
  pattern.add_classes();
  pattern.add_classes()->mutable_numbers()->set_window(4);
  for (const int index : {0, 1, 2, 0, 1}) {
    proto::BlockPattern::Run& run = *pattern.add_run();
    run.set_index(index), run.set_count(1);
  }
  return BuildModel(config);
}

TEST_CASE("shorten model: of blocks that differ, those of a class stay alone") {
  for (const int blocks : {1, 2, 3, 7}) {
    INFO(blocks << " blocks");
    proto::Model windows = LlamaModel(blocks, 4);
    windows.set_window(4);
    CHECK(Texts(*WithBlocks(Patterned(), blocks, 0)) == Texts(Llama(blocks, 0)));
    CHECK(Texts(*WithBlocks(Patterned(), blocks, 1)) == Texts(Llama(blocks, 4)));
    CHECK(Texts(*WithBlocks(Patterned(), blocks, 2)) == Texts(BuildModel(windows)));
  }
}

TEST_CASE("shorten model: any blocks stay alone") {
  const proto::Graph graph = Patterned();
  CHECK(Texts(*KeepBlocks(graph, {0, 1, 2, 3, 4})) == Texts(graph));
  CHECK(Texts(*KeepBlocks(graph, {0, 3})) == Texts(Llama(2, 0)));
  CHECK(Texts(*KeepBlocks(graph, {1, 4})) == Texts(Llama(2, 4)));
  proto::Graph plain = Gpt(4, false);
  plain.set_loss("h.3.mlp.add");
  CHECK(KeepBlocks(plain, {0, 3})->loss() == "h.1.mlp.add");
  CHECK(KeepBlocks(plain, {0, 2})->loss() == "h.1.mlp.add");
}

TEST_CASE("shorten model: a block that reads several tensors cannot be left out") {
  proto::Graph graph = Gpt(4, false);
  FindOp(&graph, "h.2.attn.add")->set_input(0, "h.0.mlp.add");
  const char* const text = "block 2: reads 2 tensors and writes 1: a search leaves out blocks";
  CHECK_THAT(Error(graph, 2), Contains(text));
  CHECK(KeepBlocks(graph, {0, 1, 2}).ok());
}

TEST_CASE("shorten model: an only block that reads several tensors does not tell of a next one") {
  proto::Graph graph = Gpt(1, false);
  FindOp(&graph, "h.0.mlp.add")->set_input(0, "embed.tokens");
  CHECK_THAT(Error(graph, 2), Contains("the only block: reads 2 tensors and writes 1"));
  CHECK(WithBlocks(graph, 1).ok());
}

}  // namespace
}  // namespace oneflow
