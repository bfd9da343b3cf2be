#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/primitive.h"

#include <catch2/catch.hpp>

namespace oneflow {

TEST_CASE("tensors know their producer and bear its name") {
  Graph graph;
  const OpId x = graph.AddOp("input", "x", {}, {});
  const OpId norm = graph.AddOp("layer_norm", "norm", {graph.ops[x].outputs[0]}, {}, 2);
  const TensorId added = graph.AddOutput(norm);
  CHECK(graph.tensors[added].name == "norm:2");
  CHECK(graph.tensors[added].output == 2);
  CHECK(graph.Producer(added).name == "norm");
  CHECK(graph.ops[norm].scope == "norm");
  CHECK(graph.FindOp("norm") == &graph.ops[norm]);
  CHECK(graph.FindOp("norm:1") == nullptr);
  CHECK(graph.FindTensor("norm") == graph.ops[norm].outputs[0]);
  CHECK(graph.FindTensor("norm:0") == graph.ops[norm].outputs[0]);
  CHECK(graph.FindTensor("norm:1") == graph.ops[norm].outputs[1]);
  CHECK(graph.FindTensor("nix") == -1);
}

TEST_CASE("attributes are read by type, with a fallback") {
  Op op;
  op.attrs = {{"i", int64_t{3}}, {"f", 0.5}, {"b", true}, {"s", std::string("x")}};
  CHECK(AttrInt(op, "i") == 3);
  CHECK(AttrInt(op, "none", 7) == 7);
  CHECK(AttrDouble(op, "f") == 0.5);
  CHECK(AttrDouble(op, "i") == 3.0);
  CHECK(AttrBool(op, "b"));
  CHECK_FALSE(AttrBool(op, "none"));
  CHECK(AttrString(op, "s") == "x");
  CHECK(AttrString(op, "none", "y") == "y");
}

TEST_CASE("uses are listed in op order, an input read twice twice") {
  Graph graph;
  const TensorId x = graph.ops[graph.AddOp("input", "x", {}, {})].outputs[0];
  const TensorId y = graph.ops[graph.AddOp("add", "y", {x, x}, {})].outputs[0];
  graph.AddOp("add", "z", {y, x}, {});
  const std::vector<std::vector<Use>> uses = FindUses(graph);
  REQUIRE(uses[x].size() == 3);
  CHECK(uses[x][1].op == 1);
  CHECK(uses[x][1].input == 1);
  CHECK(uses[x][2].op == 2);
  CHECK(uses[y].size() == 1);
}

TEST_CASE("kinds that only move, and kinds with a shape of their own") {
  CHECK(IsBoxing("all_reduce"));
  CHECK(IsBoxing("transfer"));
  CHECK_FALSE(IsBoxing("add"));
  CHECK(HasOwnShape("variable"));
  CHECK_FALSE(HasOwnShape("fill"));
}

}  // namespace oneflow
