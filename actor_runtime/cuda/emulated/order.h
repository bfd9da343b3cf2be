// The order in which the emulated GPU runs work that a GPU runs concurrently.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace oneflow::emulated {

// A sequence of numbers that a seed fixes (SplitMix64).
struct Draw {
  uint64_t state = 0;
  uint64_t Next() {
    uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  // In [0, n).
  uint64_t Below(uint64_t n) { return Next() % n; }
};

// The order of the blocks of a grid, the warps of a block and the lanes of a warp. One after
// another, each runs as far as it can before the next.
struct KernelOrder {
  enum Kind { kAscending, kDescending, kDrawn };
  Kind kind = kAscending;
  uint64_t seed = 0;  // for kDrawn
};

// Writes 0 .. size-1 to `order`, as `kind` says.
inline void Arrange(KernelOrder::Kind kind, Draw& draw, std::span<int> order) {
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); kind == KernelOrder::kDescending && i-- > order.size() / 2;) {
    std::swap(order[i], order[order.size() - 1 - i]);
  }
  for (size_t i = order.size(); kind == KernelOrder::kDrawn && i > 1; --i) {
    std::swap(order[i - 1], order[draw.Below(i)]);
  }
}

}  // namespace oneflow::emulated
