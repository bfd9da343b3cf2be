#include "oneflow_core/op/workspace.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "oneflow_core/device/cpu_scratch.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow {
namespace {

int64_t Workspace(const char* kind, const std::vector<Dims>& in, const std::vector<Dims>& out,
                  int threads = 2, const AttrMap& attrs = {}) {
  return WorkspaceBytes(proto::CPU, kind, {attrs, in, out}, threads);
}

TEST_CASE("a product's workspace holds its blocks, whatever op it is in") {
  const int64_t bytes = std::max(ProductWorkspace(8, 10, 6), ProductWorkspace(10, 8, 6));
  CHECK(Workspace("linear", {{2, 4, 6}, {6, 10}}, {{2, 4, 10}}) == bytes);
  CHECK(Workspace("matmul", {{2, 4, 6}, {6, 10}}, {{2, 4, 10}}) == bytes);
  CHECK(Workspace("linear_grad_input", {{2, 4, 6}, {10, 6}}, {{2, 4, 10}}) == bytes);
  const AttrMap lead = {{"lead", int64_t{1}}}, gelu = {{"then", std::string("gelu")}};
  CHECK(Workspace("linear_grad_weight", {{6, 8}, {6, 10}}, {{8, 10}}, 2, lead) == bytes);
  CHECK(Workspace("linear", {{2, 4, 6}, {6, 10}}, {{2, 4, 10}, {2, 4, 10}}, 2, gelu) == bytes);
  CHECK(Workspace("linear", {{0, 6}, {6, 10}}, {{0, 10}}) == 0);
  CHECK(Workspace("add", {{2, 4}, {2, 4}}, {{2, 4}}) == 0);
  CHECK(Workspace("load_tokens", {}, {{2, 4}}) == 0);
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
  const Dims q{2, 9, 6, 4, 7}, k{2, 33, 6, 7}, qkv{2, 33, 6, 6, 7};
  CHECK(Workspace("attention", {q, k, k}, {}) == AttentionWorkspace(33, 7, 2));
  CHECK(Workspace("attention_grad", {q, q, k, k}, {}) == AttentionWorkspace(33, 7, 2));
  CHECK(Workspace("packed_attention", {qkv}, {}) == AttentionWorkspace(33, 7, 2));
  CHECK(Workspace("packed_attention_grad", {q, qkv}, {}) == AttentionWorkspace(33, 7, 2));
  const Dims cache{2, 2, 6, 33, 7}, position{1};
  CHECK(Workspace("cached_attention", {cache, q, k, k, position}, {}) ==
        2 * CachedAttentionWorkspacePerThread(9, 4, 33, 7));
  // One position of many heads takes as many rows as many positions of one.
  CHECK(CachedAttentionWorkspacePerThread(1, 9, 33, 7) ==
        CachedAttentionWorkspacePerThread(9, 1, 33, 7));
}

TEST_CASE("each thread of a batch of products has blocks of its own") {
  const int64_t bytes = ProductWorkspace(101, 103, 107);
  for (int threads = 1; threads < 4; ++threads) {
    const auto batch = [&](const Dims& a, const Dims& b, bool transposed) {
      const AttrMap attrs = {{"transpose_a", transposed}, {"transpose_b", transposed}};
      return Workspace("batch_matmul", {a, b}, {{5, 101, 103}}, threads, attrs);
    };
    CHECK(batch({5, 101, 107}, {5, 107, 103}, false) == threads * bytes);
    CHECK(batch({5, 107, 101}, {5, 103, 107}, true) == threads * bytes);
  }
  CHECK(Workspace("batch_matmul", {{0, 4, 6}, {0, 6, 8}}, {{0, 4, 8}}) == 0);
}

TEST_CASE("a GPU's kernels have scratch of their own, a function of shapes alone") {
  const auto cuda = [](const char* kernel, const std::vector<Dims>& in,
                       const std::vector<Dims>& out, int threads = 2) {
    const AttrMap attrs;
    return WorkspaceBytes(proto::CUDA, kernel, {attrs, in, out}, threads);
  };
  const Dims x{4, 100, 24}, row{24}, qkv{2, 33, 3, 6, 7}, out{2, 33, 6, 7}, lse{2, 6, 33};
  const int64_t parts = LayerNormGradWeightScratch(400, 24);
  CHECK(parts == (400 + 63) / 64 * 2 * 24 * 4);
  CHECK(cuda("layer_norm_grad_weight", {x, x, {4, 100}, {4, 100}}, {row, row}) == parts);
  CHECK(cuda("layer_norm_grad_weight", {x, x, {4, 100}, {4, 100}}, {row, row}, 7) == parts);
  CHECK(cuda("layer_norm_grad_weight", {{0, 24}, {0, 24}, {0}, {0}}, {row, row}) == 0);
  CHECK(cuda("layer_norm_grad_weight", {{5, 0}, {5, 0}, {5}, {5}}, {{0}, {0}}) == 0);
  CHECK(cuda("rms_norm_grad_weight", {x, x, {4, 100}}, {row}) == parts / 2);
  CHECK(cuda("linear", {{4, 6}, {6, 8}}, {{4, 8}}) == kLibraryProductScratch);
  CHECK(cuda("sum_squares", {{4097}}, {{}}) == 16);
  CHECK(cuda("packed_attention_grad", {out, qkv, out, lse}, {qkv}) == 2 * 6 * 33 * 4);
  CHECK(cuda("attention_grad", {out, out, out, out, out, lse}, {out}) == 2 * 6 * 33 * 4);
  CHECK(cuda("packed_attention", {qkv}, {out, lse}) == 0);
  const Dims logits{2, 12, 8}, ids{2, 12, 2};
  const auto of_router = [&](const AttrMap& attrs) {
    return WorkspaceBytes(proto::CUDA, "route_grad", {attrs, {logits, ids, ids}, {logits}}, 2);
  };
  CHECK(of_router({{"balance", 0.01}, {"run", int64_t{4}}}) == 2 * 3 * 8 * 4);
  CHECK(of_router({{"balance", 0.01}}) == 2 * 8 * 4);
  CHECK(of_router({{"balance", 0.0}, {"z", 0.01}}) == 0);
  CHECK(cuda("causal_softmax", {{2, 6, 33, 33}}, {{2, 6, 33, 33}}) == 0);
}

TEST_CASE("parts of rows are few, of one size, and hold them all") {
  for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{65}, int64_t{1} << 20}) {
    const int64_t parts = RowParts(rows);
    CHECK(parts <= kMostRowParts);
    CHECK(parts * RowsOfPart(rows) >= rows);
    CHECK((parts - 1) * RowsOfPart(rows) <= std::max<int64_t>(rows - 1, 0));
  }
}

}  // namespace
}  // namespace oneflow
