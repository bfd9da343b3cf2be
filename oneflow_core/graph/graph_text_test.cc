#include "oneflow_core/graph/graph_text.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

// x -> fc2 -> y.box -> add, as it is after boxing.
Graph RowParallel() {
  Graph graph;
  graph.name = "row";
  graph.mesh = *ParseMesh("pipe=2,data=2,tensor=2");
  const auto add = [&](const char* kind, const char* name, std::vector<TensorId> in, Sbp tensor) {
    const OpId id = graph.AddOp(kind, name, std::move(in), {});
    Tensor& out = graph.tensors[graph.ops[id].outputs[0]];
    out.shape = {128, 128};
    out.sbp = {B(), S(0), tensor};
    return graph.ops[id].outputs[0];
  };
  const TensorId x = add("input", "x", {}, S(1));
  const TensorId w = add("variable", "w2", {}, S(0));
  const TensorId y = add("linear", "fc2", {x, w}, P());
  graph.ops[2].stage = 1;
  graph.ops[2].attrs = {{"contract", int64_t{2}}, {"transpose_w", true}};
  const TensorId box = add("all_reduce", "fc2.box", {y}, B());
  graph.ops[3].why = "fc2 is P on tensor; add needs B";
  add("add", "add", {box, box}, B());
  graph.ops[4].phase = Phase::kBackward;
  graph.outputs = {box};
  return graph;
}

}  // namespace

TEST_CASE("a graph prints one aligned line an op") {
  CHECK('\n' + ToText(RowParallel()) == R"(
graph row mesh=pipe=2,data=2,tensor=2 ops=5 boxing=1 outputs=fc2.box
  x:(S(0),S(1))     f32[128,128]  = input                                  stage=0
  w2:(S(0),S(0))    f32[128,128]  = variable                               stage=0
  fc2:(S(0),P)      f32[128,128]  = linear x:(S(0),S(1)) w2:(S(0),S(0))    stage=1 contract=2 transpose_w=true
  fc2.box:(S(0),B)  f32[128,128]  = all_reduce fc2:(S(0),P)                stage=0
  add:(S(0),B)      f32[128,128]  = add fc2.box:(S(0),B) fc2.box:(S(0),B)  stage=0 phase=B
)");
}

TEST_CASE("reasons are printed on request") {
  // This one has no room for its reason on its line.
  CHECK_THAT(
      ToText(RowParallel(), {.why = true}),
      Catch::Contains("  fc2.box:(S(0),B)  f32[128,128]  = all_reduce fc2:(S(0),P)           "
                      "     stage=0  # fc2 is P on tensor; add needs B\n"));
  Graph graph = RowParallel();
  graph.ops[3].why = std::string(60, '.');
  CHECK_THAT(ToText(graph, {.why = true}), Catch::Contains("stage=0\n      # ...."));
  CHECK(ToText(graph) == ToText(RowParallel()));
}

TEST_CASE("of a graph in parts each op has its index, and the parts are aligned") {
  const auto computed = [](const Op& op) { return op.kind == "linear" || op.kind == "add"; };
  CHECK('\n' + ToText(RowParallel(), {.only = computed}) == R"(
graph row mesh=pipe=2,data=2,tensor=2 ops=5 boxing=1 outputs=fc2.box
  2 fc2:(S(0),P)  f32[128,128]  = linear x:(S(0),S(1)) w2:(S(0),S(0))    stage=1 contract=2 transpose_w=true
  4 add:(S(0),B)  f32[128,128]  = add fc2.box:(S(0),B) fc2.box:(S(0),B)  stage=0 phase=B
)");
}

TEST_CASE("types in a row are written once; an output's name is the op's and its number") {
  Graph graph;
  graph.AddOp("input", "x", {}, {});
  graph.AddOp("layer_norm", "ln", {0}, {}, 3);
  graph.tensors[1].shape = {8, 4};
  graph.tensors[2].shape = graph.tensors[3].shape = {8};
  const OpId id = graph.AddOp("adamw", "step", {1, 2, 3}, {}, 2);
  graph.tensors[graph.ops[id].outputs[1]].name = "moment";
  CHECK('\n' + ToText(graph) == R"(
graph mesh=1 ops=3 boxing=0
  x            f32[]              = input
  ln :1 :2     f32[8,4] f32[8]x2  = layer_norm x
  step moment  f32[]x2            = adamw ln ln:1 ln:2
)");
  CHECK(OpText(graph, graph.ops[2]) == "  step moment  f32[]x2  = adamw ln ln:1 ln:2\n");
}

TEST_CASE("a long line has fewer aligned cells; one that is longer goes on in the next") {
  Graph graph;
  for (const char* name : {"input.of.the.case", "b"}) graph.AddOp("input", name, {}, {});
  const AttrMap some = {{"attribute", std::string(42, '.')}};
  AttrMap many = some;
  many["more"] = std::string(20, '.');
  graph.AddOp("add", "c", {0, 1}, {});
  graph.AddOp("add", "d", {1, 1}, some);
  graph.AddOp("add", "e", {1, 1}, many);
  graph.AddOp("a_kind_that_has_a_long_name", "f", {0, 0}, many);
  CHECK('\n' + ToText(graph) == R"(
graph mesh=1 ops=6 boxing=0
  input.of.the.case  f32[]  = input
  b                  f32[]  = input
  c                  f32[]  = add input.of.the.case b
  d                  f32[]  = add b b                  attribute=..........................................
  e                  f32[]  = add b b  attribute=.......................................... more=....................
  f                  f32[]  = a_kind_that_has_a_long_name input.of.the.case input.of.the.case
      attribute=.......................................... more=....................
)");
}

TEST_CASE("before SBP is inferred, constraints are shown; names of sizes not bound yet too") {
  Graph graph;
  graph.AddOp("input", "ids", {}, {{"source", std::string("tokens")}});
  graph.tensors[0].shape = {0, 16};
  graph.tensors[0].shape.names = {"batch", "seq"};
  graph.tensors[0].dtype = DType::kI32;
  graph.tensors[0].constraint = {{"data", S(0)}, {"tensor", B()}};
  graph.AddOp("layer_norm", "norm", {0}, {{"epsilon", 1e-5}}, 2);
  graph.tensors[2].constraint = {{"data", S(1)}};
  graph.loss = 1;
  CHECK('\n' + ToText(graph) == R"(
graph mesh=1 ops=2 boxing=0 loss=norm
  ids      i32[batch,16]  = input           want=data:S(0),tensor:B source=tokens
  norm :1  f32[]x2        = layer_norm ids  want:1=data:S(1) epsilon=1e-05
)");
}

TEST_CASE("a cell that is too wide shifts its own line only") {
  Graph graph;
  graph.AddOp("input", std::string(80, 'a'), {}, {});
  graph.AddOp("gelu", "b", {0}, {});
  CHECK_THAT(ToText(graph), Catch::Contains("a  f32[]  = input\n  b  f32[]  = gelu aa"));
}

TEST_CASE("attributes print as they are written") {
  CHECK(ToString(Attr(int64_t{-3})) == "-3");
  CHECK(ToString(Attr(0.02)) == "0.02");
  CHECK(ToString(Attr(1.0 / 3)) == "0.3333333333333333");
  CHECK(ToString(Attr(false)) == "false");
  CHECK(ToString(Attr(std::string("normal"))) == "normal");
  CHECK(ToString(Attr(std::vector<int64_t>{1, 2})) == "[1,2]");
}

}  // namespace oneflow
