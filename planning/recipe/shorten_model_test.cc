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

proto::Graph Llama(int layers, int experts) {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(layers), config.set_heads(4), config.set_groups(2), config.set_head_dim(8);
  config.set_hidden(32), config.set_inner(64), config.set_sequence(16), config.set_vocab(64);
  config.set_experts(experts);
  config.set_qkv_bias(true), config.set_qk_norm(true);
  if (experts > 0)
    config.set_shared_inner(32), config.set_bias_rate(.001), config.set_z_loss_coeff(.001);
  return BuildModel(config);
}

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

TEST_CASE("shorten model: blocks that differ are refused") {
  const proto::Graph alike = Gpt(4, false);
  const char* const text = "block 2: is not like block 0";
  proto::Graph wider = alike;
  FindOp(&wider, "h.2.mlp.fc.weight")->mutable_shape()->mutable_dim(1)->set_size(48);
  CHECK_THAT(Error(wider, 2), Contains(text));
  proto::Graph other_kind = alike;
  FindOp(&other_kind, "h.2.ln_1")->set_kind("rms_norm");
  CHECK_THAT(Error(other_kind, 2), Contains(text));
  proto::Graph one_more = alike;
  proto::Op* more = one_more.add_op();
  more->set_name("h.2.more"), more->set_kind("gelu"), more->add_input("h.2.mlp.add");
  more->set_block(2);
  CHECK_THAT(Error(one_more, 2), Contains(text));
  proto::Graph other_attribute = alike;
  (*FindOp(&other_attribute, "h.2.attn.core")->mutable_attr())["window"].set_i(4);
  CHECK_THAT(Error(other_attribute, 2), Contains(text));
  proto::Graph other_source = alike;
  FindOp(&other_source, "h.2.attn.add")->set_input(0, "h.0.mlp.add");
  CHECK_THAT(Error(other_source, 2), Contains(text));
}

TEST_CASE("shorten model: an only block that reads several tensors does not tell of a next one") {
  proto::Graph graph = Gpt(1, false);
  FindOp(&graph, "h.0.mlp.add")->set_input(0, "embed.tokens");
  CHECK_THAT(Error(graph, 2), Contains("the only block: reads 2 tensors and writes 1"));
  CHECK(WithBlocks(graph, 1).ok());
}

}  // namespace
}  // namespace oneflow
