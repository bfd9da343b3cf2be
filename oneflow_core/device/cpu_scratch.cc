#include "oneflow_core/device/cpu_scratch.h"

#include <algorithm>

namespace oneflow {
namespace {

// Bytes of an element.
constexpr int64_t kWidest = 8;     // f64
constexpr int64_t kNarrowest = 2;  // bf16
constexpr int64_t kSum = 4;        // f32

int64_t RoundUp(int64_t n, int64_t step = 64) { return (n + step - 1) / step * step; }

}  // namespace

int64_t ProductWorkspace(int64_t m, int64_t n, int64_t k) {
  const int64_t depth_bytes = std::min(kProductDepthBytes, kWidest * k);
  const int64_t rows = m + kMostTileRows - 1, columns = n + kMostTileColumns - 1;
  const int64_t left = std::min(depth_bytes * rows, kProductBlockBytes);
  const int64_t right = std::min(depth_bytes * columns, kProductBlockBytes);
  // Sums of several blocks along k wait in f32 until the last one, where the result is bf16.
  const bool parts = k * kNarrowest > kProductDepthBytes;
  const int64_t sums = parts ? std::min(kSum * rows * columns, kProductBlockBytes) : 0;
  return RoundUp(left) + RoundUp(right) + RoundUp(sums);
}

int64_t AttentionWorkspacePerThread(int64_t keys, int64_t d) {
  const int64_t padded = RoundUp(keys, kAttentionBlock), width = RoundUp(d, kMostPanelColumns);
  constexpr int64_t kPlace =
      3;  // a key's position and document, and its part of what a panel needs
  const int64_t of_head = 2 * d + 3 * width + kPlace, of_block = 3 * width + 2 * padded;
  return kWidest * (padded * of_head + kAttentionBlock * of_block);
}

int64_t AttentionWorkspace(int64_t keys, int64_t d, int threads) {
  return threads * AttentionWorkspacePerThread(keys, d);
}

int64_t SoftmaxWorkspacePerThread(const std::vector<int64_t>& x) {
  return RoundUp(x.back() * kWidest);
}

int64_t CachedAttentionWorkspacePerThread(int64_t t, int64_t heads, int64_t positions, int64_t d) {
  const int64_t rows = std::min(kCachedQueries, t == 1 ? heads : t), side = std::max(positions, d);
  return RoundUp(rows * positions * kWidest) + ProductWorkspace(rows, side, side);
}

}  // namespace oneflow
