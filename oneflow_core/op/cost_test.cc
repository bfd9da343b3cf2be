// FLOPs.
#include <catch2/catch.hpp>

#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/op_samples.h"

namespace oneflow {
namespace {

double Flops(const Sample& sample) {
  Graph graph = MakeGraph(sample);
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  return FindOpDef(sample.kind)->flops({graph, graph.ops[SampleOp(graph)]});
}

TEST_CASE("products count 2 m n k, in every form and gradient") {
  const double mnk = 2.0 * (2 * 4) * 6 * 8;
  CHECK(Flops({"linear", {{{2, 4, 6}}, {{6, 8}}}, {}}) == mnk);
  CHECK(Flops({"linear", {{{2, 4, 6}}, {{6, 8}}, {{8}}}, {}}) == mnk + 2 * 4 * 8);
  CHECK(Flops({"linear", {{{2, 4, 6}}, {{8, 6}}}, {{"transpose_w", true}}}) == mnk);
  CHECK(Flops({"linear_grad_input", {{{2, 4, 8}}, {{6, 8}}}, {}}) == mnk);
  CHECK(Flops({"linear_grad_weight", {{{2, 4, 6}}, {{2, 4, 8}}}, {{"lead", int64_t{2}}}}) == mnk);
  CHECK(Flops({"matmul", {{{2, 4, 6}}, {{6, 8}}}, {}}) == mnk);
  CHECK(Flops({"matmul", {{{6, 8}}, {{8, 6}}}, {{"transpose_a", true}, {"transpose_b", true}}}) ==
        2.0 * 8 * 6 * 8);
  CHECK(Flops({"matmul_grad_b", {{{2, 4, 6}}, {{2, 4, 8}}}, {}}) == mnk);
}

TEST_CASE("attention counts the causal pairs: two products forward, five backward") {
  const double pairs = 2 * 6 * (4 * 5 / 2);  // samples, heads, t (t + 1) / 2
  CHECK(Flops({"causal_attention", {{{2, 4, 3, 6, 8}}}, {}}) == 2 * 2 * pairs * 8);
  CHECK(Flops({"causal_attention_grad",
               {{{2, 4, 6, 8}}, {{2, 4, 3, 6, 8}}, {{2, 4, 6, 8}}, {{2, 6, 4}}},
               {}}) == 5 * 2 * pairs * 8);
}

TEST_CASE("FLOPs are never negative") {
  for (const Sample& sample : Samples()) {
    INFO(ToString(sample));
    CHECK(Flops(sample) >= 0);
  }
}

}  // namespace
}  // namespace oneflow
