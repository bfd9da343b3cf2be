// Causal attention of bf16 and its gradient in heads of 64 or 128, by warp products of small
// matrices (mma.cuh). A block of four warps has a tile of queries and iterates over the tiles of
// keys that they see, prefetching the next one; the gradient of keys and values iterates the other
// way round. Sums and statistics are f32; weights are rounded to bf16 to be multiplied.
//
// A warp has 16 kM rows of a tile of kRows = 64 kM rows: kM matrices of 16. Tiles are stored in
// shared memory row by row, with the 16-byte chunks of a row permuted by its number, so that the
// chunks that a warp loads at once are in different banks.
#include <cmath>

#include "actor_runtime/cuda/kernel/attention.cuh"
#include "actor_runtime/cuda/kernel/mma.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

constexpr int kBlockThreads = 4 * kWarp;
constexpr int kChunk = 8;  // elements of 16 bytes
constexpr int kQuad = 4;   // lanes that share a row of a product
constexpr float kLog2E = 1.4426950408889634f;

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

// Scores of keys behind their query become -infinity. Rows of the product are queries `row` and so
// on, columns keys, or with kRowsAreKeys the other way round. Only tiles on the diagonal have any.
template <bool kRowsAreKeys, int kM, int kN>
__device__ inline void Hide(int row, int column, Product<kM, kN>& scores) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + RowIn(m, i), c = column + ColumnIn(n, i);
        if (kRowsAreKeys ? r > c : c > r) scores.at[m][n][i] = -INFINITY;
      }
    }
  }
}

// The index of a chunk of a row in a tile.
template <int kD>
__device__ inline int TileIndex(int row, int chunk) {
  return row * kD + ((chunk & ~7) | ((chunk ^ row) & 7)) * kChunk;
}

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

// The work of a block: `tile` of the tiles of `rows` rows of a head.
struct Work {
  int64_t head;
  int first;  // row of the tile
  int mine;   // first row of this warp
};
template <int kM>
__device__ inline Work FindWork(const AttentionSizes& s, bool last_first) {
  constexpr int kRows = 64 * kM;
  const int tiles = s.tiles(kRows);
  const int tile = static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles));
  const int first = (last_first ? tiles - 1 - tile : tile) * kRows;
  return {blockIdx.x / static_cast<unsigned>(tiles), first, first + WarpIndex() * 16 * kM};
}

template <int kD, int kM, int kStep>
__global__ void __launch_bounds__(kBlockThreads)
    Bf16AttentionKernel(AttentionSizes s, bool accumulate, Bf16* out, float* lse, const Bf16* qkv) {
  constexpr int kRows = 64 * kM, kN = kStep / 8;
  Bf16* queries = DynamicShared<Bf16>();
  Bf16* keys = queries + kRows * kD;     // [2][kStep][kD]
  Bf16* values = keys + 2 * kStep * kD;  // [2][kStep][kD]
  const Work work = FindWork<kM>(s, /*last_first=*/true);
  const Bf16* q = qkv + s.QkvAt(work.head);
  const Bf16* k = q + s.out_row();
  const int seen = work.first + kRows < s.t ? work.first + kRows : s.t;
  const float to_exponent = s.scale * kLog2E;

  LoadTile<kRows, kD>(queries, q, s.qkv_row(), work.first, s.t);
  LoadTile<kStep, kD>(keys, k, s.qkv_row(), 0, s.t);
  LoadTile<kStep, kD>(values, k + s.out_row(), s.qkv_row(), 0, s.t);
  EndCopies();
  Product<kM, kD / 8> result;
  result.Clear();
  float max[kM][2], sum[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    max[m][0] = max[m][1] = -INFINITY;
    sum[m][0] = sum[m][1] = 0;
  }
  for (int first = 0, stage = 0; first < seen; first += kStep, stage ^= 1) {
    if (first + kStep < seen) {
      const int next = (stage ^ 1) * kStep * kD;
      LoadTile<kStep, kD>(keys + next, k, s.qkv_row(), first + kStep, s.t);
      LoadTile<kStep, kD>(values + next, k + s.out_row(), s.qkv_row(), first + kStep, s.t);
    }
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (first < work.mine + 16 * kM) {
      Product<kM, kN> p;
      MultiplyRows<kD>(queries, work.mine - work.first, keys + stage * kStep * kD, p);
      if (first + kStep > work.mine) Hide</*kRowsAreKeys=*/false>(work.mine, first, p);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float top = max[m][half];
#pragma unroll
          for (int n = 0; n < kN; ++n) {
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
              top = Larger()(top, p.at[m][n][i]);
            }
          }
          top = WarpReduce(top, Larger(), kQuad);
          const float shrink = FastExp2((max[m][half] - top) * to_exponent);
          const float shift = top * to_exponent;
          float total = 0;
#pragma unroll
          for (int n = 0; n < kN; ++n) {
#pragma unroll
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
              p.at[m][n][i] = FastExp2(p.at[m][n][i] * to_exponent - shift);
              total += p.at[m][n][i];
            }
          }
          max[m][half] = top;
          sum[m][half] = sum[m][half] * shrink + total;
#pragma unroll
          for (int n = 0; n < kD / 8; ++n) {
            result.at[m][n][2 * half] *= shrink;
            result.at[m][n][2 * half + 1] *= shrink;
          }
        }
      }
      AddWeighted<kD>(p, values + stage * kStep * kD, result);
    }
    __syncthreads();  // The stage may be written again.
  }
  WaitForCopies<0>();
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = WarpReduce(sum[m][half], Plus(), kQuad);
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        result.at[m][n][2 * half] /= total;
        result.at[m][n][2 * half + 1] /= total;
      }
      const int query = work.mine + RowIn(m, 2 * half);
      if (query < s.t && LaneIndex() % kQuad == 0) {
        lse[s.LseAt(work.head) + query] = max[m][half] * s.scale + logf(total);
      }
    }
  }
  PutRows(out + s.OutAt(work.head), s.out_row(), work.mine, s.t, result, accumulate);
}

// The weight of a score; `lse` times log2 e, infinite after the end. 0 for a masked score.
__device__ inline float FindWeight(float score, float to_exponent, float lse) {
  return FastExp2(score * to_exponent - lse);
}

template <int kD, int kM, int kStep>
__global__ void __launch_bounds__(kBlockThreads)
    Bf16QueryGradKernel(AttentionSizes s, Bf16* dqkv, const Bf16* dout, const Bf16* qkv,
                        const float* lse, const float* dots) {
  constexpr int kRows = 64 * kM, kN = kStep / 8;
  Bf16* queries = DynamicShared<Bf16>();
  Bf16* outs = queries + kRows * kD;     // [kRows][kD]: dout
  Bf16* keys = outs + kRows * kD;        // [2][kStep][kD]
  Bf16* values = keys + 2 * kStep * kD;  // [2][kStep][kD]
  const Work work = FindWork<kM>(s, /*last_first=*/true);
  const Bf16* q = qkv + s.QkvAt(work.head);
  const Bf16 *k = q + s.out_row(), *v = k + s.out_row();
  const int seen = work.first + kRows < s.t ? work.first + kRows : s.t;
  const float to_exponent = s.scale * kLog2E;

  LoadTile<kRows, kD>(queries, q, s.qkv_row(), work.first, s.t);
  LoadTile<kRows, kD>(outs, dout + s.OutAt(work.head), s.out_row(), work.first, s.t);
  LoadTile<kStep, kD>(keys, k, s.qkv_row(), 0, s.t);
  LoadTile<kStep, kD>(values, v, s.qkv_row(), 0, s.t);
  EndCopies();
  float row_lse[kM][2], row_dot[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = work.mine + RowIn(m, 2 * half);
      const int64_t at = s.LseAt(work.head) + query;
      row_lse[m][half] = query < s.t ? lse[at] * kLog2E : INFINITY;
      row_dot[m][half] = query < s.t ? dots[at] : 0.0f;
    }
  }
  Product<kM, kD / 8> dq;
  dq.Clear();
  for (int first = 0, stage = 0; first < seen; first += kStep, stage ^= 1) {
    if (first + kStep < seen) {
      const int next = (stage ^ 1) * kStep * kD;
      LoadTile<kStep, kD>(keys + next, k, s.qkv_row(), first + kStep, s.t);
      LoadTile<kStep, kD>(values + next, v, s.qkv_row(), first + kStep, s.t);
    }
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (first < work.mine + 16 * kM) {
      const int mine = work.mine - work.first;
      Product<kM, kN> p, grads;
      MultiplyRows<kD>(queries, mine, keys + stage * kStep * kD, p);
      MultiplyRows<kD>(outs, mine, values + stage * kStep * kD, grads);
      if (first + kStep > work.mine) Hide</*kRowsAreKeys=*/false>(work.mine, first, p);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int n = 0; n < kN; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float w = FindWeight(p.at[m][n][i], to_exponent, row_lse[m][i / 2]);
            grads.at[m][n][i] = w * (grads.at[m][n][i] - row_dot[m][i / 2]);
          }
        }
      }
      AddWeighted<kD>(grads, keys + stage * kStep * kD, dq);
    }
    __syncthreads();  // The stage may be written again.
  }
  WaitForCopies<0>();
  dq.Scale(s.scale);
  PutRows(dqkv + s.QkvAt(work.head), s.qkv_row(), work.mine, s.t, dq, /*accumulate=*/false);
}

// For a tile of keys, and of their values: rows of products are keys, columns are the kQueries
// queries of the current tile.
template <int kD, int kM, int kQueries>
__global__ void __launch_bounds__(kBlockThreads)
    Bf16KeyGradKernel(AttentionSizes s, Bf16* dqkv, const Bf16* dout, const Bf16* qkv,
                      const float* lse, const float* dots) {
  constexpr int kRows = 64 * kM, kN = kQueries / 8;
  Bf16* keys = DynamicShared<Bf16>();
  Bf16* values = keys + kRows * kD;
  Bf16* queries = values + kRows * kD;                                    // [2][kQueries][kD]
  Bf16* outs = queries + 2 * kQueries * kD;                               // [2][kQueries][kD]: dout
  float2* numbers = reinterpret_cast<float2*>(outs + 2 * kQueries * kD);  // [2][kQueries]: lse, dot
  const Work work = FindWork<kM>(s, /*last_first=*/false);
  const Bf16* q = qkv + s.QkvAt(work.head);
  const Bf16 *k = q + s.out_row(), *v = k + s.out_row();
  const float to_exponent = s.scale * kLog2E;
  const auto load = [&](int first, int stage) {
    const int at = stage * kQueries * kD;
    LoadTile<kQueries, kD>(queries + at, q, s.qkv_row(), first, s.t);
    LoadTile<kQueries, kD>(outs + at, dout + s.OutAt(work.head), s.out_row(), first, s.t);
    const int i = static_cast<int>(threadIdx.x);
    if (i >= kQueries) return;
    const bool there = first + i < s.t;
    const int64_t row = s.LseAt(work.head) + first + i;
    numbers[stage * kQueries + i] =
        there ? float2{lse[row] * kLog2E, dots[row]} : float2{INFINITY, 0.0f};
  };

  LoadTile<kRows, kD>(keys, k, s.qkv_row(), work.first, s.t);
  LoadTile<kRows, kD>(values, v, s.qkv_row(), work.first, s.t);
  const int begin = work.first / kQueries * kQueries;
  load(begin, 0);
  EndCopies();
  Product<kM, kD / 8> dk, dv;
  dk.Clear();
  dv.Clear();
  for (int first = begin, stage = 0; first < s.t; first += kQueries, stage ^= 1) {
    if (first + kQueries < s.t) load(first + kQueries, stage ^ 1);
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (first + kQueries > work.mine) {
      const int mine = work.mine - work.first;
      const Bf16 *tile_q = queries + stage * kQueries * kD, *tile_o = outs + stage * kQueries * kD;
      Product<kM, kN> p, grads;
      MultiplyRows<kD>(keys, mine, tile_q, p);
      if (first < work.mine + 16 * kM) Hide</*kRowsAreKeys=*/true>(work.mine, first, p);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int n = 0; n < kN; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float row_lse = numbers[stage * kQueries + ColumnIn(n, i)].x;
            p.at[m][n][i] = FindWeight(p.at[m][n][i], to_exponent, row_lse);
          }
        }
      }
      AddWeighted<kD>(p, tile_o, dv);
      MultiplyRows<kD>(values, mine, tile_o, grads);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int n = 0; n < kN; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float dot = numbers[stage * kQueries + ColumnIn(n, i)].y;
            grads.at[m][n][i] = p.at[m][n][i] * (grads.at[m][n][i] - dot);
          }
        }
      }
      AddWeighted<kD>(grads, tile_q, dk);
    }
    __syncthreads();  // The stage may be written again.
  }
  WaitForCopies<0>();
  dk.Scale(s.scale);
  Bf16* to = dqkv + s.QkvAt(work.head) + s.out_row();
  PutRows(to, s.qkv_row(), work.mine, s.t, dk, /*accumulate=*/false);
  PutRows(to + s.out_row(), s.qkv_row(), work.mine, s.t, dv, /*accumulate=*/false);
}

// A block a tile of `rows` rows of a head, with `elements` of bf16 and `numbers` of f32 in shared
// memory. All of it is dynamic: only that may be more than 48 KiB.
size_t TilesBytes(int elements, int numbers) { return elements * 2 + numbers * sizeof(float); }
LaunchShape TilesShape(const AttentionSizes& s, int rows, int elements, int numbers) {
  return {MakeGrid(s.b * s.h * s.tiles(rows)), dim3(kBlockThreads), TilesBytes(elements, numbers)};
}

// Elements in shared memory: `kept` tiles of 64 kM rows, and four of kStep rows that pass.
template <int kD, int kM, int kStep, int kKept = 2>
constexpr int kElements = (kKept * 64 * kM + 4 * kStep) * kD;

template <int kD, int kM, int kStep>
absl::Status AllowForward() {
  return AllowShared("causal_attention_bf16", &Bf16AttentionKernel<kD, kM, kStep>,
                     TilesBytes(kElements<kD, kM, kStep, 1>, 0));
}
template <int kD, int kM, int kStep, int kKeysM, int kQueries>
absl::Status AllowBackward() {
  RETURN_IF_ERROR(AllowShared("causal_attention_grad_bf16", &Bf16QueryGradKernel<kD, kM, kStep>,
                              TilesBytes(kElements<kD, kM, kStep>, 0)));
  return AllowShared("causal_attention_grad_bf16", &Bf16KeyGradKernel<kD, kKeysM, kQueries>,
                     TilesBytes(kElements<kD, kKeysM, kQueries>, 4 * kQueries));
}

template <int kD, int kM, int kStep>
absl::Status Forward(const AttentionSizes& s, cudaStream_t stream, bool accumulate, Bf16* out,
                     float* lse, const Bf16* qkv) {
  return Launch("causal_attention_bf16", &Bf16AttentionKernel<kD, kM, kStep>,
                TilesShape(s, 64 * kM, kElements<kD, kM, kStep, 1>, 0), stream, s, accumulate, out,
                lse, qkv);
}

template <int kD, int kM, int kStep, int kKeysM, int kQueries>
absl::Status Backward(const AttentionSizes& s, cudaStream_t stream, Bf16* dqkv, const Bf16* dout,
                      const Bf16* qkv, const float* lse, const float* dots) {
  RETURN_IF_ERROR(Launch("causal_attention_grad_bf16", &Bf16QueryGradKernel<kD, kM, kStep>,
                         TilesShape(s, 64 * kM, kElements<kD, kM, kStep>, 0), stream, s, dqkv, dout,
                         qkv, lse, dots));
  return Launch("causal_attention_grad_bf16", &Bf16KeyGradKernel<kD, kKeysM, kQueries>,
                TilesShape(s, 64 * kKeysM, kElements<kD, kKeysM, kQueries>, 4 * kQueries), stream,
                s, dqkv, dout, qkv, lse, dots);
}

}  // namespace

absl::Status AllowBf16Attention(const AttentionSizes& s) {
  return s.d == 64 ? AllowForward<64, 2, 64>() : AllowForward<128, 2, 32>();
}
absl::Status AllowBf16AttentionGrad(const AttentionSizes& s) {
  return s.d == 64 ? AllowBackward<64, 2, 32, 1, 64>() : AllowBackward<128, 1, 64, 1, 32>();
}
absl::Status LaunchBf16Attention(const AttentionSizes& s, cudaStream_t stream, bool accumulate,
                                 Bf16* out, float* lse, const Bf16* qkv) {
  return s.d == 64 ? Forward<64, 2, 64>(s, stream, accumulate, out, lse, qkv)
                   : Forward<128, 2, 32>(s, stream, accumulate, out, lse, qkv);
}

absl::Status LaunchBf16AttentionGrad(const AttentionSizes& s, cudaStream_t stream, Bf16* dqkv,
                                     const Bf16* dout, const Bf16* qkv, const float* lse,
                                     const float* dots) {
  return s.d == 64 ? Backward<64, 2, 32, 1, 64>(s, stream, dqkv, dout, qkv, lse, dots)
                   : Backward<128, 1, 64, 1, 32>(s, stream, dqkv, dout, qkv, lse, dots);
}

}  // namespace oneflow::cuda
