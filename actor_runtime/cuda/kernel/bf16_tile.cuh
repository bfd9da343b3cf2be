// Tiles of bf16 in shared memory, and a thread's part of the product of two, for attention and for
// the products of experts.
//
// Tiles are stored row by row, with the 16-byte chunks of a row permuted by its number, so that the
// chunks that a warp loads at once are in different banks.
#pragma once

#include "actor_runtime/cuda/kernel/numeric.cuh"

namespace oneflow::cuda {

inline constexpr int kChunk = 8;  // elements of 16 bytes
inline constexpr int kQuad = 4;   // lanes that share a row of a product

// This thread's part of a product of kM x kN matrices of 16 x 8.
template <int kM, int kN>
struct Product {
  float at[kM][kN][4];
  __device__ void Clear() {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) at[m][n][i] = 0;
      }
    }
  }
  __device__ void Scale(float factor) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) at[m][n][i] *= factor;
      }
    }
  }
};

// Row and column of element i of matrix (m, n) of a product.
__device__ inline int RowIn(int m, int i) { return 16 * m + LaneIndex() / kQuad + i / 2 * 8; }
__device__ inline int ColumnIn(int n, int i) { return 8 * n + LaneIndex() % kQuad * 2 + i % 2; }

// The index of a chunk of a row in a tile.
template <int kD>
__device__ inline int TileIndex(int row, int chunk) {
  return row * kD + ((chunk & ~7) | ((chunk ^ row) & 7)) * kChunk;
}

}  // namespace oneflow::cuda
