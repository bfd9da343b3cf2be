// Products of tiles for attention: a block of 16 x 16 threads works on 64 rows by 64 rows of
// two matrices, in f32. It serves any shape; scores are in registers and shared memory alone.
//
// In a tile, thread (x, y) has rows 4 y .. 4 y + 3 and columns x, x + 16, x + 32, ...: the elements
// that the 16 threads of a row read are in different banks, and a row's sums need half a warp.
#pragma once

#include "actor_runtime/cuda/kernel/attention_spans.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"

namespace oneflow::cuda {

inline constexpr int kTile = 64;                    // rows of either side
inline constexpr int kSide = 16;                    // threads of a side
inline constexpr int kTileThreads = kSide * kSide;  // of a block
inline constexpr int kEach = kTile / kSide;         // rows of a thread
inline constexpr int kDepth = 32;                   // columns that are multiplied at a time
inline constexpr int kStride = kTile + 1;           // of rows in shared memory

// The first `rows` rows of a matrix; elements beyond them, and beyond the columns, are 0.
template <typename S>
struct Matrix {
  const S* data;
  int64_t row;  // elements from one row to the next
  int rows, columns;

  __device__ float At(int r, int c) const {
    return r < rows && c < columns ? Wide(data[r * row + c]) : 0.0f;
  }
};

// Shared memory of a block.
struct TileMemory {
  float left[kDepth][kStride], right[kDepth][kStride];
  float weights[kTile][kStride];
  float values[kSide][2 * kTile];
  SeenParts parts;  // of the other side
};

__device__ inline int TileX() { return static_cast<int>(threadIdx.x) % kSide; }
__device__ inline int TileY() { return static_cast<int>(threadIdx.x) / kSide; }

// Products of rows a0 + i of `a` and b0 + j of `b`: this thread's.
template <typename S>
__device__ inline void MultiplyRows(const Matrix<S>& a, int a0, const Matrix<S>& b, int b0,
                                    TileMemory& memory, float (&sums)[kEach][kEach]) {
  const int x = TileX(), y = TileY();
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) sums[i][j] = 0;
  }
  for (int first = 0; first < a.columns; first += kDepth) {
    __syncthreads();  // The last chunk has been read.
#pragma unroll
    for (int r = WarpIndex(); r < kTile; r += kTileThreads / kWarp) {
      memory.left[LaneIndex()][r] = a.At(a0 + r, first + LaneIndex());
      memory.right[LaneIndex()][r] = b.At(b0 + r, first + LaneIndex());
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kDepth; ++k) {
      float left[kEach], right[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        left[i] = memory.left[k][y * kEach + i];
        right[i] = memory.right[k][x + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] += left[i] * right[j];
      }
    }
  }
}

// memory.weights = weights. The earlier ones have been read: a call of MultiplyRows is between.
__device__ inline void StoreWeights(const float (&weights)[kEach][kEach], TileMemory& memory) {
  const int x = TileX(), y = TileY();
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) memory.weights[y * kEach + i][x + j * kSide] = weights[i][j];
  }
}

// sums += memory.weights times columns c0 + x, c0 + x + 16, ... of rows v0 .. v0 + 63 of `v`.
template <typename S, int kColumns>
__device__ inline void AddWeighted(const Matrix<S>& v, int v0, int c0, TileMemory& memory,
                                   float (&sums)[kEach][kColumns / kSide]) {
  static_assert(kColumns <= 2 * kTile);
  const int x = TileX(), y = TileY();
  for (int first = 0; first < kTile; first += kSide) {
    __syncthreads();  // The weights are there; the last rows have been read.
#pragma unroll
    for (int i = 0; i < kColumns / kSide; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kTileThreads;
      memory.values[at / kColumns][at % kColumns] =
          v.At(v0 + first + at / kColumns, c0 + at % kColumns);
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kSide; ++k) {
      float weights[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) weights[i] = memory.weights[y * kEach + i][first + k];
#pragma unroll
      for (int j = 0; j < kColumns / kSide; ++j) {
        const float value = memory.values[k][x + j * kSide];
#pragma unroll
        for (int i = 0; i < kEach; ++i) sums[i][j] += weights[i] * value;
      }
    }
  }
}

}  // namespace oneflow::cuda
