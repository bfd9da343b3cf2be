// Causal attention of bf16 and its gradient in heads of 64 or 128, by warp products of small
// matrices (attention_bf16_tile.cuh). A block of four warps has a tile of queries and iterates over
// the tiles of keys that they see, prefetching the next one; the gradient of keys and values
// iterates the other way round. Sums and statistics are f32; weights are rounded to bf16 to be
// multiplied.
#include <cmath>

#include "actor_runtime/cuda/kernel/attention.cuh"
#include "actor_runtime/cuda/kernel/attention_bf16_tile.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

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
    Bf16AttentionKernel(AttentionSizes s, bool accumulate, Bf16* out, float* lse,
                        Qkv<const Bf16> qkv) {
  constexpr int kRows = 64 * kM, kN = kStep / 8;
  Bf16* queries = DynamicShared<Bf16>();
  Bf16* keys = queries + kRows * kD;     // [2][kStep][kD]
  Bf16* values = keys + 2 * kStep * kD;  // [2][kStep][kD]
  const Work work = FindWork<kM>(s, /*last_first=*/true);
  const Bf16* q = qkv.q + s.QueryAt(work.head);
  const Bf16 *k = qkv.k + s.KeyAt(work.head), *v = qkv.v + s.KeyAt(work.head);
  const int seen = work.first + kRows < s.t ? work.first + kRows : s.t;
  const float to_exponent = s.scale * kLog2E;

  LoadTile<kRows, kD>(queries, q, s.q_row, work.first, s.t);
  LoadTile<kStep, kD>(keys, k, s.kv_row, 0, s.t);
  LoadTile<kStep, kD>(values, v, s.kv_row, 0, s.t);
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
      LoadTile<kStep, kD>(keys + next, k, s.kv_row, first + kStep, s.t);
      LoadTile<kStep, kD>(values + next, v, s.kv_row, first + kStep, s.t);
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
    Bf16QueryGradKernel(AttentionSizes s, Qkv<Bf16> dqkv, const Bf16* dout, Qkv<const Bf16> qkv,
                        const float* lse, const float* dots) {
  constexpr int kRows = 64 * kM, kN = kStep / 8;
  Bf16* queries = DynamicShared<Bf16>();
  Bf16* outs = queries + kRows * kD;     // [kRows][kD]: dout
  Bf16* keys = outs + kRows * kD;        // [2][kStep][kD]
  Bf16* values = keys + 2 * kStep * kD;  // [2][kStep][kD]
  const Work work = FindWork<kM>(s, /*last_first=*/true);
  const Bf16* q = qkv.q + s.QueryAt(work.head);
  const Bf16 *k = qkv.k + s.KeyAt(work.head), *v = qkv.v + s.KeyAt(work.head);
  const int seen = work.first + kRows < s.t ? work.first + kRows : s.t;
  const float to_exponent = s.scale * kLog2E;

  LoadTile<kRows, kD>(queries, q, s.q_row, work.first, s.t);
  LoadTile<kRows, kD>(outs, dout + s.OutAt(work.head), s.out_row(), work.first, s.t);
  LoadTile<kStep, kD>(keys, k, s.kv_row, 0, s.t);
  LoadTile<kStep, kD>(values, v, s.kv_row, 0, s.t);
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
      LoadTile<kStep, kD>(keys + next, k, s.kv_row, first + kStep, s.t);
      LoadTile<kStep, kD>(values + next, v, s.kv_row, first + kStep, s.t);
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
  PutRows(dqkv.q + s.QueryAt(work.head), s.q_row, work.mine, s.t, dq, /*accumulate=*/false);
}

// For a tile of keys of a group, and of their values: rows of products are keys, columns are the
// kQueries queries of the current tile. A step is a tile of queries of one of the group's heads,
// which come one after the other.
template <int kD, int kM, int kQueries>
__global__ void __launch_bounds__(kBlockThreads)
    Bf16KeyGradKernel(AttentionSizes s, Qkv<Bf16> dqkv, const Bf16* dout, Qkv<const Bf16> qkv,
                      const float* lse, const float* dots) {
  constexpr int kRows = 64 * kM, kN = kQueries / 8;
  Bf16* keys = DynamicShared<Bf16>();
  Bf16* values = keys + kRows * kD;
  Bf16* queries = values + kRows * kD;                                    // [2][kQueries][kD]
  Bf16* outs = queries + 2 * kQueries * kD;                               // [2][kQueries][kD]: dout
  float2* numbers = reinterpret_cast<float2*>(outs + 2 * kQueries * kD);  // [2][kQueries]: lse, dot
  const Work work = FindWork<kM>(s, /*last_first=*/false);
  const int64_t group = s.GroupAt(work.head);
  const Bf16 *k = qkv.k + group, *v = qkv.v + group;
  const float to_exponent = s.scale * kLog2E;
  const int begin = work.first / kQueries * kQueries;
  const int tiles = (s.t - begin + kQueries - 1) / kQueries, steps = tiles * s.r;
  const auto load = [&](int step, int stage) {
    const int at = stage * kQueries * kD, first = begin + step % tiles * kQueries;
    const int64_t head = work.head * s.r + step / tiles;
    LoadTile<kQueries, kD>(queries + at, qkv.q + s.QueryAt(head), s.q_row, first, s.t);
    LoadTile<kQueries, kD>(outs + at, dout + s.OutAt(head), s.out_row(), first, s.t);
    const int i = static_cast<int>(threadIdx.x);
    if (i >= kQueries) return;
    const bool there = first + i < s.t;
    const int64_t row = s.LseAt(head) + first + i;
    numbers[stage * kQueries + i] =
        there ? float2{lse[row] * kLog2E, dots[row]} : float2{INFINITY, 0.0f};
  };

  LoadTile<kRows, kD>(keys, k, s.kv_row, work.first, s.t);
  LoadTile<kRows, kD>(values, v, s.kv_row, work.first, s.t);
  load(0, 0);
  EndCopies();
  Product<kM, kD / 8> dk, dv;
  dk.Clear();
  dv.Clear();
  for (int step = 0, stage = 0; step < steps; ++step, stage ^= 1) {
    const int first = begin + step % tiles * kQueries;
    if (step + 1 < steps) load(step + 1, stage ^ 1);
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
  PutRows(dqkv.k + group, s.kv_row, work.mine, s.t, dk, /*accumulate=*/false);
  PutRows(dqkv.v + group, s.kv_row, work.mine, s.t, dv, /*accumulate=*/false);
}

// A block a tile of `rows` rows of a head or of a group, with `elements` of bf16 and `numbers` of
// f32 in shared memory. All of it is dynamic: only that may be more than 48 KiB.
size_t TilesBytes(int elements, int numbers) { return elements * 2 + numbers * sizeof(float); }
LaunchShape TilesShape(int64_t heads, const AttentionSizes& s, int rows, int elements,
                       int numbers) {
  return {MakeGrid(heads * s.tiles(rows)), dim3(kBlockThreads), TilesBytes(elements, numbers)};
}

// Elements in shared memory: `kept` tiles of 64 kM rows, and four of kStep rows that pass.
template <int kD, int kM, int kStep, int kKept = 2>
constexpr int kElements = (kKept * 64 * kM + 4 * kStep) * kD;

template <int kD, int kM, int kStep>
absl::Status AllowForward() {
  return AllowShared("attention_bf16", &Bf16AttentionKernel<kD, kM, kStep>,
                     TilesBytes(kElements<kD, kM, kStep, 1>, 0));
}
template <int kD, int kM, int kStep, int kKeysM, int kQueries>
absl::Status AllowBackward() {
  RETURN_IF_ERROR(AllowShared("attention_grad_bf16", &Bf16QueryGradKernel<kD, kM, kStep>,
                              TilesBytes(kElements<kD, kM, kStep>, 0)));
  return AllowShared("attention_grad_bf16", &Bf16KeyGradKernel<kD, kKeysM, kQueries>,
                     TilesBytes(kElements<kD, kKeysM, kQueries>, 4 * kQueries));
}

template <int kD, int kM, int kStep>
absl::Status Forward(const AttentionSizes& s, cudaStream_t stream, bool accumulate, Bf16* out,
                     float* lse, const Qkv<const Bf16>& qkv) {
  return Launch("attention_bf16", &Bf16AttentionKernel<kD, kM, kStep>,
                TilesShape(s.b * s.h, s, 64 * kM, kElements<kD, kM, kStep, 1>, 0), stream, s,
                accumulate, out, lse, qkv);
}

template <int kD, int kM, int kStep, int kKeysM, int kQueries>
absl::Status Backward(const AttentionSizes& s, cudaStream_t stream, const Qkv<Bf16>& dqkv,
                      const Bf16* dout, const Qkv<const Bf16>& qkv, const float* lse,
                      const float* dots) {
  RETURN_IF_ERROR(Launch("attention_grad_bf16", &Bf16QueryGradKernel<kD, kM, kStep>,
                         TilesShape(s.b * s.h, s, 64 * kM, kElements<kD, kM, kStep>, 0), stream, s,
                         dqkv, dout, qkv, lse, dots));
  return Launch(
      "attention_grad_bf16", &Bf16KeyGradKernel<kD, kKeysM, kQueries>,
      TilesShape(s.b * s.g, s, 64 * kKeysM, kElements<kD, kKeysM, kQueries>, 4 * kQueries), stream,
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
                                 Bf16* out, float* lse, const Qkv<const Bf16>& qkv) {
  return s.d == 64 ? Forward<64, 2, 64>(s, stream, accumulate, out, lse, qkv)
                   : Forward<128, 2, 32>(s, stream, accumulate, out, lse, qkv);
}

absl::Status LaunchBf16AttentionGrad(const AttentionSizes& s, cudaStream_t stream,
                                     const Qkv<Bf16>& dqkv, const Bf16* dout,
                                     const Qkv<const Bf16>& qkv, const float* lse,
                                     const float* dots) {
  return s.d == 64 ? Backward<64, 2, 32, 1, 64>(s, stream, dqkv, dout, qkv, lse, dots)
                   : Backward<128, 1, 64, 1, 32>(s, stream, dqkv, dout, qkv, lse, dots);
}

}  // namespace oneflow::cuda
