// The choice on one axis is the least of all: small graphs of any form against brute force over
// every combination of rows.
#include "compiler/passes/infer_sbp.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "compiler/passes/brute_force.h"
#include "compiler/passes/infer_shapes.h"
#include "compiler/passes/place_variables.h"
#include "compiler/passes/sbp_network.h"

namespace oneflow {
namespace {

TensorId Add(Graph* graph, const char* kind, std::vector<TensorId> inputs, Dims dims = {}) {
  const std::string name = std::string(kind) + std::to_string(graph->ops.size());
  const OpId op = graph->AddOp(kind, name, std::move(inputs), {});
  if (!dims.empty()) graph->tensors[graph->ops[op].outputs[0]].shape = Shape(std::move(dims));
  return graph->ops[op].outputs[0];
}

// `layers` products, sums and gelus of earlier tensors; 16 x 16 each.
Graph Draw(int layers, int devices, std::mt19937* random) {
  Graph graph;
  graph.mesh = Mesh{{{"x", devices}}};
  std::vector<TensorId> made = {Add(&graph, "input", {}, {16, 16})};
  const auto any = [&] { return made[(*random)() % made.size()]; };
  for (int i = 0; i < layers; ++i) {
    switch ((*random)() % 3) {
      case 0: {
        const TensorId w = Add(&graph, "variable", {}, {16, 16});
        made.push_back(Add(&graph, "linear", {any(), w}));
        break;
      }
      case 1: made.push_back(Add(&graph, "gelu", {any()})); break;
      default: made.push_back(Add(&graph, "add", {any(), any()}));
    }
    if ((*random)() % 4 == 0) {
      const Sbp wishes[] = {B(), S(0), S(1)};
      graph.tensors[made.back()].constraint["x"] = wishes[(*random)() % 3];
    }
  }
  graph.outputs = {made.back()};
  REQUIRE(CheckAndInferShapes(&graph).ok());
  REQUIRE(PlaceVariables(&graph).ok());
  return graph;
}

// Links and devices at which neither boxing nor computing is negligible.
proto::Cluster Slow(std::mt19937* random) {
  proto::Cluster cluster;
  proto::Level* level = cluster.add_level();
  level->set_size(8);
  level->set_latency(1e-8 * static_cast<double>((*random)() % 100));
  level->set_bandwidth(1e8 * static_cast<double>(1 + (*random)() % 100));
  cluster.mutable_device()->set_peak_flops(1e9 * static_cast<double>(1 + (*random)() % 100));
  cluster.mutable_device()->set_memory_bandwidth(1e9 * static_cast<double>(1 + (*random)() % 20));
  return cluster;
}

TEST_CASE("infer_sbp: small graphs of any form are given the cheapest of all layouts") {
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    Graph graph =
        Draw(2 + static_cast<int>(random() % 4), 2 + static_cast<int>(random() % 3), &random);
    const SbpOptions options{.cluster = Slow(&random)};
    SbpChoice whole;
    for (Tensor& tensor : graph.tensors) tensor.sbp = {B()};
    for (const Op& op : graph.ops) whole.op_inputs.emplace_back(op.inputs.size(), NdSbp{B()});
    const auto units = SbpUnits::Make(graph, whole, options, 0);
    REQUIRE(units.ok());
    const ChoiceNetwork network = SbpNetwork(graph, whole, options, 0, *units);
    double combinations = 1;
    for (int v = 0; v < network.variables(); ++v) combinations *= network.labels(v);
    if (combinations > 2e5) continue;
    const Choices best = Solve(network);
    CHECK(best.proved());
    CHECK(best.cost == BruteForce(network));
  }
}

TEST_CASE("infer_sbp: a tensor with very many readers is shared among those that need it alike") {
  // The readers are split along the batch, as asked; x is whole: one slice for all of them.
  Graph graph;
  graph.mesh = Mesh{{{"x", 2}}};
  const TensorId x = Add(&graph, "input", {}, {16, 16});
  graph.tensors[x].constraint["x"] = S(1);
  for (int i = 0; i < 12; ++i) {
    const TensorId w = Add(&graph, "variable", {}, {16, 16});
    graph.outputs.push_back(Add(&graph, "linear", {x, w}));
  }
  REQUIRE(CheckAndInferShapes(&graph).ok());
  REQUIRE(PlaceVariables(&graph).ok());
  const auto choice = InferSbp(&graph);
  REQUIRE(choice.ok());
  const NdSbp first = choice->op_inputs[graph.tensors[graph.outputs[0]].producer][0];
  for (const TensorId y : graph.outputs) {
    CHECK(choice->op_inputs[graph.tensors[y].producer][0] == first);
  }
  CHECK(choice->notes.back() ==
        "axis x: no other layout takes less time, given the axes before it");
}

}  // namespace
}  // namespace oneflow
