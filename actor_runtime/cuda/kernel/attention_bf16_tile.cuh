// Products of tiles of bf16 by warps, for attention_bf16.cu. Internal to it.
//
// A block of four warps has a tile of kRows = 64 kM rows, a warp 16 kM of them: kM matrices of 16.
#pragma once

#include "actor_runtime/cuda/kernel/bf16_tile.cuh"
#include "actor_runtime/cuda/kernel/mma.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"

namespace oneflow::cuda {

inline constexpr int kBlockThreads = 4 * kWarp;
inline constexpr float kLog2E = 1.4426950408889634f;

// Copies rows first .. first + kRows - 1 of a matrix asynchronously; those from `end` on are zeros.
// A thread copies the same chunk of every kApart-th row, a multiple of 8 rows, so its indices are
// equally far apart.
template <int kRows, int kD>
__device__ inline void LoadTile(Bf16* tile, const Bf16* rows, int64_t row, int first, int end) {
  constexpr int kChunks = kD / kChunk, kApart = kBlockThreads / kChunks;
  static_assert(kApart % 8 == 0 && kRows % kApart == 0);
  const int r = static_cast<int>(threadIdx.x) / kChunks,
            c = static_cast<int>(threadIdx.x) % kChunks;
  Bf16* to = tile + TileIndex<kD>(r, c);
  const Bf16* from = rows + (first + r) * row + c * kChunk;
#pragma unroll
  for (int i = 0; i < kRows; i += kApart) {
    CopyLater(to + i * kD, from, first + r + i < end);
    from += kApart * row;
  }
}

// sums = the products of rows first .. first + 16 kM - 1 of `left` and the 8 kN rows of `right`.
template <int kD, int kM, int kN>
__device__ inline void MultiplyRows(const Bf16* left, int first, const Bf16* right,
                                    Product<kM, kN>& sums) {
  const int lane = LaneIndex();
  sums.Clear();
#pragma unroll 2
  for (int k = 0; k < kD / 16; ++k) {
    uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      LoadMatrices(a[m], left + TileIndex<kD>(first + 16 * m + lane % 16, 2 * k + lane / 16));
    }
#pragma unroll
    for (int n = 0; n < kN; n += 2) {
      uint32_t b[4];
      LoadMatrices(b,
                   right + TileIndex<kD>(8 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        MultiplyAdd(sums.at[m][n], a[m], b[0], b[1]);
        MultiplyAdd(sums.at[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// sums += weights times the 8 kN rows of `right`.
template <int kD, int kM, int kN>
__device__ inline void AddWeighted(const Product<kM, kN>& weights, const Bf16* right,
                                   Product<kM, kD / 8>& sums) {
  const int lane = LaneIndex();
#pragma unroll
  for (int k = 0; k < kN / 2; ++k) {
    uint32_t a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const auto& w = weights.at[m];
      a[m][0] = PackWord(w[2 * k][0], w[2 * k][1]);
      a[m][1] = PackWord(w[2 * k][2], w[2 * k][3]);
      a[m][2] = PackWord(w[2 * k + 1][0], w[2 * k + 1][1]);
      a[m][3] = PackWord(w[2 * k + 1][2], w[2 * k + 1][3]);
    }
#pragma unroll
    for (int n = 0; n < kD / 8; n += 2) {
      uint32_t b[4];
      LoadTransposed(b, right + TileIndex<kD>(16 * k + lane % 16, n + lane / 16));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        MultiplyAdd(sums.at[m][n], a[m], b[0], b[1]);
        MultiplyAdd(sums.at[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Writes rows first + ... of a product, those before `end`.
template <int kM, int kN>
__device__ inline void PutRows(Bf16* to, int64_t row, int first, int end,
                               const Product<kM, kN>& values, bool accumulate) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int r = first + RowIn(m, i);
      if (r >= end) continue;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const Floats<2> pair{values.at[m][n][i], values.at[m][n][i + 1]};
        PutPack<2>(to + r * row + ColumnIn(n, 0), pair, accumulate);
      }
    }
  }
}

}  // namespace oneflow::cuda
