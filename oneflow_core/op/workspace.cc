#include "oneflow_core/op/workspace.h"

#include <algorithm>

namespace oneflow {
namespace {

constexpr int64_t kWidest = 8;  // bytes of an f64

int64_t RoundUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

int64_t ProductWorkspace(int64_t m, int64_t n, int64_t k, int threads) {
  const int64_t depth_bytes = std::min(kProductDepthBytes, kWidest * k);
  const int64_t right = depth_bytes * (std::min(kProductColumns, n) + kMostTileColumns - 1);
  const int64_t left = depth_bytes * (std::min(kProductRows, m) + kMostTileRows - 1);
  return RoundUp(right) + threads * RoundUp(left);
}

int64_t AttentionWorkspacePerThread(int64_t t, int64_t d) {
  const int64_t scores = std::min(kAttentionRowBytes, kWidest * t) * t;
  const int64_t side = std::max(t, d);
  return 2 * RoundUp(scores) + ProductWorkspace(side, side, side, 1);
}

int64_t AttentionWorkspace(int64_t t, int64_t d, int threads) {
  return threads * AttentionWorkspacePerThread(t, d);
}

}  // namespace oneflow
