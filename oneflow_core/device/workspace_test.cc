#include "oneflow_core/device/workspace.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "oneflow_core/device/cpu_scratch.h"

namespace oneflow {
namespace {

int64_t Workspace(const char* kernel, const std::vector<Dims>& in, const std::vector<Dims>& out,
                  int threads = 2) {
  return WorkspaceBytes(proto::CPU, kernel, in, out, threads);
}

TEST_CASE("a product's workspace holds its blocks, whatever op it is in") {
  const int64_t bytes = std::max(ProductWorkspace(8, 10, 6), ProductWorkspace(10, 8, 6));
  CHECK(Workspace("linear", {{2, 4, 6}, {6, 10}}, {{2, 4, 10}}) == bytes);
  CHECK(Workspace("matmul", {{2, 4, 6}, {6, 10}}, {{2, 4, 10}}) == bytes);
  CHECK(Workspace("linear_grad_input", {{2, 4, 6}, {10, 6}}, {{2, 4, 10}}) == bytes);
  CHECK(Workspace("linear_grad_weight", {{6, 8}, {6, 10}}, {{8, 10}}) == bytes);
  CHECK(Workspace("linear", {{0, 6}, {6, 10}}, {{0, 10}}) == 0);
  CHECK(Workspace("add", {{2, 4}, {2, 4}}, {{2, 4}}) == 0);
  // Whichever way the kernel computes it.
  constexpr int64_t kMany = 1 << 20;
  const int64_t tall = ProductWorkspace(kMany, 8, 64), wide = ProductWorkspace(8, kMany, 64);
  CHECK(tall != wide);
  CHECK(Workspace("linear", {{kMany, 64}, {64, 8}}, {{kMany, 8}}) == std::max(tall, wide));
  CHECK(Workspace("linear", {{8, 64}, {64, kMany}}, {{8, kMany}}) == std::max(tall, wide));
}

TEST_CASE("workspaces are whole lines; attention's grows with threads, a product's is bounded") {
  CHECK(ProductWorkspace(101, 103, 107) % 64 == 0);
  CHECK(ProductWorkspace(1 << 20, 1 << 20, 1 << 20) == 3 * kProductBlockBytes);
  for (int threads = 1; threads < 4; ++threads) {
    CHECK(AttentionWorkspace(33, 7, threads) == threads * AttentionWorkspacePerThread(33, 7));
  }
  CHECK(AttentionWorkspacePerThread(33, 7) % 64 == 0);
  CHECK(Workspace("causal_attention", {{2, 33, 3, 6, 7}}, {}) == AttentionWorkspace(33, 7, 2));
  CHECK(Workspace("causal_attention_grad", {{2, 33, 6, 7}, {2, 33, 3, 6, 7}}, {}) ==
        AttentionWorkspace(33, 7, 2));
}

TEST_CASE("each thread of a batch of products has blocks of its own") {
  const int64_t bytes = ProductWorkspace(101, 103, 107);
  for (int threads = 1; threads < 4; ++threads) {
    const auto batch = [&](const Dims& a, const Dims& b) {
      return Workspace("batch_matmul", {a, b}, {{5, 101, 103}}, threads);
    };
    CHECK(batch({5, 101, 107}, {5, 107, 103}) == threads * bytes);
    CHECK(batch({5, 107, 101}, {5, 103, 107}) == threads * bytes);
  }
  CHECK(Workspace("batch_matmul", {{0, 4, 6}, {0, 6, 8}}, {{0, 4, 8}}) == 0);
}

}  // namespace
}  // namespace oneflow
