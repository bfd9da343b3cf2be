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
  x        input                                          -> x:(S(0),S(1))     f32[128,128]  stage=0
  w2       variable                                       -> w2:(S(0),S(0))    f32[128,128]  stage=0
  fc2      linear      x:(S(0),S(1)) w2:(S(0),S(0))       -> fc2:(S(0),P)      f32[128,128]  stage=1 contract=2 transpose_w=true
  fc2.box  all_reduce  fc2:(S(0),P)                       -> fc2.box:(S(0),B)  f32[128,128]  stage=0
  add      add         fc2.box:(S(0),B) fc2.box:(S(0),B)  -> add:(S(0),B)      f32[128,128]  stage=0 phase=B
)");
}

TEST_CASE("reasons are printed on request") {
  const std::string text = ToText(RowParallel(), {.why = true});
  CHECK(text.find("stage=0 # fc2 is P on tensor; add needs B\n") != std::string::npos);
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
  ids   input            -> ids          i32[batch,16]  want=data:S(0),tensor:B source=tokens
  norm  layer_norm  ids  -> norm norm:1  f32[] f32[]    want:1=data:S(1) epsilon=1e-05
)");
}

TEST_CASE("a cell that is too wide shifts its own line only") {
  Graph graph;
  graph.AddOp("input", std::string(80, 'a'), {}, {});
  graph.AddOp("gelu", "b", {0}, {});
  const std::string text = ToText(graph);
  CHECK(text.find("\n  b  gelu   ") != std::string::npos);
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
