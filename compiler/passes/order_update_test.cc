#include "compiler/passes/passes.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "oneflow_core/graph/graph_for_test.h"

namespace oneflow {
namespace {

constexpr Phase kForward = Phase::kForward, kBackward = Phase::kBackward, kUpdate = Phase::kUpdate;

// Names of the ops of the update, or of all others.
std::string Names(const Graph& graph, bool update) {
  std::string text;
  for (const Op& op : graph.ops) {
    if ((op.phase == kUpdate) == update) text += (text.empty() ? "" : " ") + op.name;
  }
  return text;
}

// Ops read outputs of earlier ops only, and tensors name their producers.
bool IsOrdered(const Graph& graph) {
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    for (const TensorId t : graph.ops[id].inputs) {
      if (graph.tensors[t].producer >= id) return false;
    }
    for (const TensorId t : graph.ops[id].outputs) {
      if (graph.tensors[t].producer != id) return false;
    }
  }
  return true;
}

// Two layers whose gradients are summed over devices, normed and applied, written from the first to
// the last; the backward finishes that of the last layer first.
Graph TwoLayers() {
  GraphForTest b("data=2");
  const TensorId w1 = b.Add(kForward, "variable", "w1", {}, {B()});
  const TensorId w2 = b.Add(kForward, "variable", "w2", {}, {B()});
  const TensorId y = b.Add(kForward, "matmul", "y", {w1, w2}, {S(0)});
  const TensorId dw2 = b.Add(kBackward, "matmul_grad_b", "dw2", {y}, {P()});
  const TensorId dw1 = b.Add(kBackward, "matmul_grad_b", "dw1", {y}, {P()});
  const TensorId m1 = b.Add(kUpdate, "variable", "m1", {}, {B()});
  const TensorId g1 = b.Add(kUpdate, "all_reduce", "g1", {dw1}, {S(0)});
  const TensorId s1 = b.Add(kUpdate, "sum_squares", "s1", {g1}, {P()});
  const TensorId m2 = b.Add(kUpdate, "variable", "m2", {}, {B()});
  const TensorId g2 = b.Add(kUpdate, "all_reduce", "g2", {dw2}, {S(0)});
  const TensorId s2 = b.Add(kUpdate, "sum_squares", "s2", {g2}, {P()});
  const TensorId a1 = b.Add(kUpdate, "all_reduce", "a1", {s1}, {B()});
  const TensorId a2 = b.Add(kUpdate, "all_reduce", "a2", {s2}, {B()});
  const TensorId norm = b.Add(kUpdate, "global_norm", "norm", {a1, a2}, {B()});
  b.Add(kUpdate, "adamw", "u1", {w1, m1, g1, norm}, {B()});
  b.Add(kUpdate, "adamw", "u2", {w2, m2, g2, norm}, {B()});
  return b.graph;
}

}  // namespace

TEST_CASE("gradients come from the last layer to the first, states stay before them") {
  Graph graph = TwoLayers();
  OrderUpdate(&graph);
  CHECK(IsOrdered(graph));
  // The exchange of s2 waits for a kernel of the update, so it comes behind the gradient g1.
  CHECK(Names(graph, true) == "m1 m2 g2 s2 g1 s1 a2 a1 norm u1 u2");
}

TEST_CASE("ops of other phases stay where they are") {
  Graph graph = TwoLayers();
  const Graph before = graph;
  OrderUpdate(&graph);
  CHECK(Names(graph, false) == "w1 w2 y dw2 dw1");
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    CHECK((graph.ops[id].phase == kUpdate) == (before.ops[id].phase == kUpdate));
    CHECK(graph.FindOp(before.ops[id].name)->inputs == before.ops[id].inputs);
  }
}

TEST_CASE("what waits for local kernels of the update comes behind all that does not") {
  // Parts of da are summed on the device first; db, which is finished later, is exchanged as it is.
  GraphForTest b("data=2");
  const TensorId da = b.Add(kBackward, "matmul_grad_b", "da", {}, {P()});
  const TensorId db = b.Add(kBackward, "matmul_grad_b", "db", {}, {P()});
  const TensorId sum = b.Add(kUpdate, "add", "sum", {da, da}, {P()});
  b.Add(kUpdate, "all_reduce", "ga", {sum}, {B()});
  const TensorId part = b.Add(kUpdate, "slice", "part", {db}, {P()});
  b.Add(kUpdate, "all_reduce", "gpart", {part}, {B()});
  b.Add(kUpdate, "all_reduce", "gb", {db}, {B()});
  OrderUpdate(&b.graph);
  CHECK(IsOrdered(b.graph));
  CHECK(Names(b.graph, true) == "sum part gb ga gpart");
}

TEST_CASE("exchanges that kernels of the update wait for stand together") {
  // Sums of squares lie in parts, and are gathered before they are summed.
  GraphForTest b("data=2");
  const std::vector<TensorId> grads = {b.Add(kBackward, "matmul_grad_b", "dw0", {}, {P()}),
                                       b.Add(kBackward, "matmul_grad_b", "dw1", {}, {P()})};
  std::vector<TensorId> sums;
  for (size_t k = 0; k < grads.size(); ++k) {
    const std::string i = std::to_string(k);
    const TensorId g = b.Add(kUpdate, "reduce_scatter", "g" + i, {grads[k]}, {S(0)});
    const TensorId q = b.Add(kUpdate, "sum_squares", "q" + i, {g}, {S(0)});
    const TensorId a = b.Add(kUpdate, "all_gather", "a" + i, {q}, {B()});
    sums.push_back(b.Add(kUpdate, "sum_in_order", "s" + i, {a}, {B()}));
  }
  b.Add(kUpdate, "global_norm", "norm", sums, {B()});
  OrderUpdate(&b.graph);
  CHECK(IsOrdered(b.graph));
  CHECK(Names(b.graph, true) == "g0 q0 g1 q1 a0 a1 s0 s1 norm");
}

TEST_CASE("the update keeps its topological order, and ordering it again changes nothing") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<int>(random() % n); };
    GraphForTest b("data=2");
    std::vector<TensorId> tensors;
    for (int i = 0; i < 5; ++i) {
      tensors.push_back(b.Add(kBackward, "matmul_grad_b", "d" + std::to_string(i), {}, {P()}));
    }
    for (int i = 0; i < 20; ++i) {
      constexpr const char* kKinds[] = {"variable", "all_reduce", "add", "slice", "transfer"};
      const std::string kind = kKinds[below(std::size(kKinds))];
      std::vector<TensorId> inputs;
      for (int n = kind == "variable" ? 0 : kind == "add" ? 2 : 1; n > 0; --n) {
        inputs.push_back(tensors[below(tensors.size())]);
      }
      tensors.push_back(b.Add(kUpdate, kind, "u" + std::to_string(i), inputs, {B()}));
    }
    OrderUpdate(&b.graph);
    INFO("seed " << seed << ": " << Names(b.graph, true));
    CHECK(IsOrdered(b.graph));
    const std::string once = Names(b.graph, true);
    OrderUpdate(&b.graph);
    CHECK(Names(b.graph, true) == once);
  }
}

}  // namespace oneflow
