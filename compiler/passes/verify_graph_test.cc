#include "compiler/passes/passes.h"

#include <catch2/catch.hpp>

#include <string>

#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

// x:S(1) w:S(0) -> fc:P -> all_reduce -> y, all of it right.
Graph RowParallel() {
  Graph graph;
  graph.mesh = Mesh{{{"pipe", 2}, {"tensor", 2}}};
  auto add = [&graph](std::string kind, std::string name, std::vector<TensorId> inputs, Dims dims,
                      Sbp sbp) {
    const OpId op = graph.AddOp(std::move(kind), std::move(name), std::move(inputs), {});
    Tensor& tensor = graph.tensors[graph.ops[op].outputs[0]];
    tensor.shape = Shape(std::move(dims));
    tensor.sbp = {B(), sbp};
    return graph.ops[op].outputs[0];
  };
  const TensorId x = add("input", "x", {}, {4, 8}, S(1));
  const TensorId w = add("variable", "w", {}, {8, 6}, S(0));
  const TensorId fc = add("linear", "fc", {x, w}, {4, 6}, P());
  const TensorId sum = add("all_reduce", "fc.all_reduce", {fc}, {4, 6}, B());
  graph.ops.back().attrs["axis"] = std::string("tensor");
  graph.outputs = {add("gelu", "y", {sum}, {4, 6}, B())};
  return graph;
}

Tensor& NamedTensor(Graph& graph, const std::string& name) {
  return graph.tensors[graph.FindTensor(name)];
}

std::string Refusal(const Graph& graph) {
  const absl::Status status = VerifyGraph(graph);
  return status.ok() ? "" : std::string(ToStd(status.message()));
}

TEST_CASE("verify_graph accepts what is right") { CHECK(Refusal(RowParallel()) == ""); }

TEST_CASE("verify_graph refuses an op that no row of its table allows") {
  Graph graph = RowParallel();
  NamedTensor(graph, "fc").sbp[1] = S(0);
  CHECK(Refusal(graph).find("no row of its table on axis tensor is ((S(1),S(0))) -> S(0)") !=
        std::string::npos);
}

TEST_CASE("verify_graph refuses a boxing op that does something else than its kind says") {
  Graph graph = RowParallel();
  graph.ops[3].kind = "all_gather";
  CHECK(Refusal(graph).find("turns (B,P) into (B,B)") != std::string::npos);
}

TEST_CASE(
    "verify_graph refuses partial values that leave the graph, and a reduction between stages") {
  Graph leaves = RowParallel();
  leaves.outputs = {leaves.FindTensor("fc")};
  CHECK(Refusal(leaves).find("a partial value leaves the graph") != std::string::npos);
  Graph crosses = RowParallel();
  crosses.ops[3].kind = "transfer";
  crosses.ops[3].attrs.clear();
  crosses.ops[3].stage = crosses.ops[4].stage = 1;
  CHECK(Refusal(crosses).find("changes the SBP between stages") != std::string::npos);
}

TEST_CASE("verify_graph refuses to read from another stage, or from a later phase") {
  Graph stages = RowParallel();
  stages.ops[4].stage = 1;
  CHECK(Refusal(stages).find("reads fc.all_reduce of another stage") != std::string::npos);
  Graph phases = RowParallel();
  phases.ops[2].phase = phases.ops[3].phase = Phase::kBackward;
  CHECK(Refusal(phases).find("reads fc.all_reduce of a later phase") != std::string::npos);
}

TEST_CASE("verify_graph refuses what fits no mesh, no axis and no variable") {
  const auto refusal = [](auto edit) {
    Graph graph = RowParallel();
    edit(graph);
    return Refusal(graph);
  };
  using G = Graph;
  const auto sbp = [](G& g, const char* t) -> NdSbp& { return NamedTensor(g, t).sbp; };
  const auto says = [](const char* words) { return Catch::Contains(words); };
  CHECK_THAT(refusal([&](G& g) { sbp(g, "y").pop_back(); }), says("tensor y has no SBP"));
  CHECK_THAT(refusal([&](G& g) { sbp(g, "y")[0] = S(0); }), says("is not B on the stage axis"));
  CHECK_THAT(refusal([&](G& g) { sbp(g, "y")[1] = S(2); }), says("y has no dimension to split"));
  CHECK_THAT(refusal([](G& g) {
               NamedTensor(g, "fc.all_reduce").shape = Shape({4, 7});
             }),
             says("changes the tensor"));
  CHECK_THAT(refusal([](G& g) { NamedTensor(g, "fc.all_reduce").dtype = DType::kBF16; }),
             says("changes the tensor"));
  CHECK_THAT(refusal([](G& g) { g.ops[3].attrs.clear(); }), says("names no axis"));
  CHECK_THAT(refusal([](G& g) { g.ops[3].attrs["axis"] = std::string("rows"); }),
             says("names no axis"));
  CHECK_THAT(refusal([](G& g) { g.ops[3].attrs["axis"] = std::string("pipe,tensor"); }),
             says("works on several axes"));
  CHECK_THAT(refusal([](G& g) { g.loss = g.FindTensor("fc"); }),
             says("a partial value leaves the graph"));
  CHECK_THAT(refusal([](G& g) {
               const TensorId y = g.outputs[0];
               g.AddOp("adamw", "u", {y, y, y, y}, {}, 3);
               for (TensorId t : g.ops.back().outputs) g.tensors[t] = g.tensors[y];
             }),
             says("updates y, which is no variable"));
}

TEST_CASE("verify_graph refuses to change a split outside of another axis's") {
  Graph graph = RowParallel();
  graph.mesh = Mesh{{{"data", 2}, {"tensor", 2}}};
  NamedTensor(graph, "x").sbp = {B(), S(0)};
  NamedTensor(graph, "w").sbp = {B(), B()};
  NamedTensor(graph, "fc").sbp = {B(), S(0)};
  NamedTensor(graph, "fc.all_reduce").sbp = {S(0), S(0)};
  NamedTensor(graph, "y").sbp = {S(0), S(0)};
  graph.ops[3].kind = "slice";
  graph.ops[3].attrs["axis"] = std::string("data");
  CHECK(Refusal(graph).find("outside of that of axis tensor") != std::string::npos);
}

}  // namespace
}  // namespace oneflow
