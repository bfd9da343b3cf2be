// FLOPs and workspaces.
#include <algorithm>

#include <catch2/catch.hpp>

#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/op_samples.h"
#include "oneflow_core/op/workspace.h"

namespace oneflow {
namespace {

double Flops(const Sample& sample) {
  Graph graph = GraphOf(sample);
  REQUIRE(InferShapes(&graph) == absl::OkStatus());
  return FindOpDef(sample.kind)->flops({graph, graph.ops[OpOf(graph)]});
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

int64_t Workspace(const char* kind, std::vector<Dims> in, std::vector<Dims> out, int threads) {
  return FindOpDef(kind)->workspace(in, out, {}, threads);
}

TEST_CASE("a product's workspace holds its blocks, whatever op it is in") {
  const int64_t bytes = std::max(ProductWorkspace(8, 10, 6), ProductWorkspace(10, 8, 6));
  CHECK(Workspace("linear", {{2, 4, 6}, {6, 10}}, {{2, 4, 10}}, 2) == bytes);
  CHECK(Workspace("matmul", {{2, 4, 6}, {6, 10}}, {{2, 4, 10}}, 2) == bytes);
  CHECK(Workspace("linear_grad_input", {{2, 4, 6}, {10, 6}}, {{2, 4, 10}}, 2) == bytes);
  CHECK(Workspace("linear_grad_weight", {{6, 8}, {6, 10}}, {{8, 10}}, 2) == bytes);
  CHECK(Workspace("linear", {{0, 6}, {6, 10}}, {{0, 10}}, 2) == 0);
  // Whichever way the kernel computes it.
  constexpr int64_t kMany = 1 << 20;
  const int64_t tall = ProductWorkspace(kMany, 8, 64), wide = ProductWorkspace(8, kMany, 64);
  CHECK(tall != wide);
  CHECK(Workspace("linear", {{kMany, 64}, {64, 8}}, {{kMany, 8}}, 2) == std::max(tall, wide));
  CHECK(Workspace("linear", {{8, 64}, {64, kMany}}, {{8, kMany}}, 2) == std::max(tall, wide));
}

TEST_CASE("workspaces are whole lines; attention's grows with threads, a product's is bounded") {
  CHECK(ProductWorkspace(101, 103, 107) % 64 == 0);
  CHECK(ProductWorkspace(1 << 20, 1 << 20, 1 << 20) == 3 * kProductBlockBytes);
  for (int threads = 1; threads < 4; ++threads) {
    CHECK(AttentionWorkspace(33, 7, threads) == threads * AttentionWorkspacePerThread(33, 7));
  }
  CHECK(AttentionWorkspacePerThread(33, 7) % 64 == 0);
  CHECK(Workspace("causal_attention", {{2, 33, 3, 6, 7}}, {}, 2) == AttentionWorkspace(33, 7, 2));
  CHECK(Workspace("causal_attention_grad", {{2, 33, 6, 7}, {2, 33, 3, 6, 7}}, {}, 2) ==
        AttentionWorkspace(33, 7, 2));
}

}  // namespace
}  // namespace oneflow
