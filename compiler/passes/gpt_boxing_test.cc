// The whole front end on a GPT as users train it: what is exchanged, and that there is nothing
// else.
#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <string>
#include <utility>

#include "compiler/passes/passes.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/model/annotate_gpt.h"
#include "oneflow_core/model/gpt.h"

namespace oneflow {
namespace {

GptConfig Config(int64_t layers) {
  GptConfig config;
  config.layers = layers;
  config.heads = 4;
  config.hidden = 32;
  config.sequence = 16;
  config.vocab = 256;
  return config;
}

Graph Logical(const GptConfig& config, const std::string& mesh) {
  Graph graph = *GraphFromProto(BuildGpt(config), "gpt");
  graph.outputs.clear();
  graph.mesh = *ParseMesh(mesh);
  return graph;
}

// All passes of a train program: 4 sequences a micro-batch, 4 micro-batches a step.
Graph Boxed(Graph graph) {
  REQUIRE(BindBatch(&graph, 4).ok());
  REQUIRE(CheckAndInferShapes(&graph).ok());
  REQUIRE(Decompose(&graph, 4).ok());
  REQUIRE(PlaceVariables(&graph).ok());
  const auto gradients = Differentiate(&graph, graph.loss);
  REQUIRE(gradients.ok());
  REQUIRE(AddOptimizer(&graph, *gradients).ok());
  const auto choice = InferSbp(&graph, {.micro_batches = 4, .mirrors = gradients->mirrors});
  INFO(choice.status());
  REQUIRE(choice.ok());
  REQUIRE(InsertBoxing(&graph, *choice).ok());
  const absl::Status verified = VerifyGraph(graph);
  INFO(verified);
  REQUIRE(verified.ok());
  return graph;
}

// Boxing ops by kind, of those that fire every micro-batch (or once a step) and move a tensor of a
// block "h.<i>".
std::map<std::string, int> BlockBoxing(const Graph& graph, bool update) {
  std::map<std::string, int> count;
  for (const Op& op : graph.ops) {
    const bool once = op.phase == Phase::kUpdate;
    if (IsBoxing(op.kind) && once == update && op.name.rfind("h.", 0) == 0) ++count[op.kind];
  }
  return count;
}

Graph Boxed(const GptConfig& config, const std::string& mesh) {
  Graph graph = Logical(config, mesh);
  REQUIRE(AnnotateGpt(&graph, graph.mesh).ok());
  return Boxed(std::move(graph));
}

using Count = std::map<std::string, int>;

TEST_CASE("GPT on data: nothing is exchanged in a micro-batch, every gradient once a step") {
  const Graph graph = Boxed(Config(2), "data=2");
  CHECK(BlockBoxing(graph, false) == Count{});
  CHECK(BlockBoxing(graph, true) == Count{{"all_reduce", 2 * 12}});
}

TEST_CASE("GPT on tensor: two all_reduces a block forward, two backward") {
  for (const std::string mesh : {"tensor=2", "data=2,tensor=2", "tensor=4"}) {
    INFO(mesh);
    CHECK(BlockBoxing(Boxed(Config(2), mesh), false) == Count{{"all_reduce", 2 * 4}});
  }
}

TEST_CASE("GPT on pipe: an activation goes down, a gradient comes back") {
  const Graph graph = Boxed(Config(4), "pipe=4");
  std::map<Phase, int> transfers;
  for (const Op& op : graph.ops) {
    if (!IsBoxing(op.kind)) continue;
    CHECK(op.kind == "transfer");
    ++transfers[op.phase];
  }
  CHECK(transfers[Phase::kForward] == 3);
  CHECK(transfers[Phase::kBackward] == 3);
}

TEST_CASE("GPT without annotations, on axes of any name and factoring, is boxed and verified") {
  for (const std::string mesh : {"tensor=2", "x=4", "data=2x2", "a=2,b=2,c=2"}) {
    INFO(mesh);
    CHECK(Boxed(Logical(Config(1), mesh)).ops.size() > 40);
  }
  CHECK(Boxed(Config(1), "data=2x2,tensor=2").ops.size() > 40);
}

TEST_CASE("GPT with whatever constraints on its variables is boxed and verified") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    Graph graph = Logical(Config(1), "data=2,tensor=2");
    if (round % 2 == 0) {
      REQUIRE(AnnotateGpt(&graph, graph.mesh).ok());
    }
    for (const Op& op : graph.ops) {
      if (op.kind != "variable") continue;
      Tensor& w = graph.tensors[op.outputs[0]];
      for (const std::string axis : {"data", "tensor"}) {
        const int choice = static_cast<int>(random() % (w.shape.rank() + 2));
        const Sbp sbp = choice == 0 ? B() : S(choice - 1);
        // Four elements of a dimension of three cannot be had: leave such ones free.
        if (choice > w.shape.rank() || (sbp.split() && w.shape.dims[sbp.dim] < 4)) continue;
        w.constraint[axis] = sbp;
      }
    }
    INFO("round " << round);
    CHECK(Boxed(std::move(graph)).ops.size() > 40);
  }
}

TEST_CASE("GPT with 96 layers passes in seconds") {
  const Graph graph = Boxed(Config(96), "pipe=2,data=2,tensor=2");
  CHECK(graph.ops.size() > 96 * 40);
}

}  // namespace
}  // namespace oneflow
