// Causal attention and its gradient, on qkv[b, t, 3, h, d], for every shape and type. A block has a
// tile of queries of one head and iterates over the tiles of keys that they see, or the reverse;
// scores are computed when they are needed and never stored.
//
// For bf16, heads of 64 and 128 have separate kernels (attention_bf16.cu).
//
// Heads wider than 128 are split into parts of 128 columns, each with separate blocks, which
// recompute the scores.
#include <cmath>

#include <limits>
#include <type_traits>
#include "actor_runtime/cuda/kernel/attention.cuh"
#include "actor_runtime/cuda/kernel/attention_tile.cuh"
#include "actor_runtime/cuda/kernel/factories.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

// Queries (0), keys (1) or values (2) of a head, or their gradients.
template <typename S>
__device__ Matrix<S> HeadMatrix(const AttentionSizes& s, const S* qkv, int64_t head, int part) {
  return {qkv + s.QkvAt(head) + part * s.out_row(), s.qkv_row(), s.t, s.d};
}
template <typename S>
__device__ Matrix<S> OutputMatrix(const AttentionSizes& s, const S* out, int64_t head) {
  return {out + s.OutAt(head), s.out_row(), s.t, s.d};
}

// The work of block blockIdx. Tiles with more work come first.
struct Work {
  int64_t head;
  int first;   // row of the tile
  int column;  // first of its part of the columns
};
template <int kColumns>
__device__ Work FindWork(const AttentionSizes& s, bool last_first) {
  const int tiles = s.tiles(kTile);
  const int tile = static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles));
  return {blockIdx.x / static_cast<unsigned>(tiles), (last_first ? tiles - 1 - tile : tile) * kTile,
          static_cast<int>(blockIdx.y) * kColumns};
}

// Writes this thread's elements of a tile, for rows that exist.
template <int kColumns, typename S>
__device__ void PutTile(S* to, int64_t row, const AttentionSizes& s, const Work& work,
                        const float (&sums)[kEach][kColumns / kSide], bool accumulate) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int r = work.first + TileY() * kEach + i;
#pragma unroll
    for (int j = 0; j < kColumns / kSide; ++j) {
      const int c = work.column + TileX() + j * kSide;
      if (r < s.t && c < s.d) Put(to + r * row + c, sums[i][j], accumulate);
    }
  }
}

template <int kColumns, typename S>
__global__ void __launch_bounds__(kTileThreads)
    AttentionKernel(AttentionSizes s, bool accumulate, S* out, float* lse, const S* qkv) {
  __shared__ TileMemory memory;
  const Work work = FindWork<kColumns>(s, /*last_first=*/true);
  const Matrix<S> q = HeadMatrix(s, qkv, work.head, 0), k = HeadMatrix(s, qkv, work.head, 1);
  const Matrix<S> v = HeadMatrix(s, qkv, work.head, 2);
  float max[kEach], sum[kEach], result[kEach][kColumns / kSide];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    max[i] = -INFINITY;
    sum[i] = 0;
#pragma unroll
    for (int j = 0; j < kColumns / kSide; ++j) result[i][j] = 0;
  }
  for (int first = 0; first <= work.first; first += kTile) {
    float p[kEach][kEach];
    MultiplyRows(q, work.first, k, first, memory, p);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int query = work.first + TileY() * kEach + i;
      float top = max[i];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int key = first + TileX() + j * kSide;
        p[i][j] = key <= query ? p[i][j] * s.scale : -INFINITY;
        top = Larger()(top, p[i][j]);
      }
      top = WarpReduce(top, Larger(), kSide);
      float total = 0;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        p[i][j] = expf(p[i][j] - top);
        total += p[i][j];
      }
      const float shrink = expf(max[i] - top);
      sum[i] = sum[i] * shrink + WarpReduce(total, Plus(), kSide);
      max[i] = top;
#pragma unroll
      for (int j = 0; j < kColumns / kSide; ++j) result[i][j] *= shrink;
    }
    StoreWeights(p, memory);
    AddWeighted<S, kColumns>(v, first, work.column, memory, result);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int query = work.first + TileY() * kEach + i;
    const float factor = 1.0f / sum[i];
#pragma unroll
    for (int j = 0; j < kColumns / kSide; ++j) result[i][j] *= factor;
    if (query < s.t && TileX() == 0 && work.column == 0) {
      lse[s.LseAt(work.head) + query] = max[i] + logf(sum[i]);
    }
  }
  PutTile<kColumns>(out + s.OutAt(work.head), s.out_row(), s, work, result, accumulate);
}

// dots[b, h, t] = Σ dout out over a head's columns. A warp works on a row.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    RowDotsKernel(AttentionSizes s, float* dots, const S* dout, const S* out) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + WarpIndex();
  const bool here = row < s.b * s.h * s.t;
  const int64_t head = row / s.t, at = here ? s.OutAt(head) + row % s.t * s.out_row() : 0;
  float sum = 0;
  for (int c = LaneIndex(); c < s.d && here; c += kWarp)
    sum += Wide(dout[at + c]) * Wide(out[at + c]);
  sum = WarpReduce(sum, Plus());
  if (here && LaneIndex() == 0) dots[row] = sum;
}

// The inputs of the gradient of a head.
template <typename S>
struct HeadGrad {
  Matrix<S> q, k, v, dout;
  const float *lse, *dots;
};
template <typename S>
__device__ HeadGrad<S> MakeHeadGrad(const AttentionSizes& s, int64_t head, const S* dout,
                                    const S* qkv, const float* lse, const float* dots) {
  return {HeadMatrix(s, qkv, head, 0), HeadMatrix(s, qkv, head, 1), HeadMatrix(s, qkv, head, 2),
          OutputMatrix(s, dout, head), lse + s.LseAt(head),         dots + s.LseAt(head)};
}

// The weight of a score in its row: 0 for a masked key, and for a query after the end.
__device__ inline float FindWeight(const AttentionSizes& s, int query, int key, float score,
                                   const float* lse) {
  return query < s.t && key <= query ? expf(score * s.scale - lse[query]) : 0.0f;
}
// The gradient of a score, from the gradient of its weight.
__device__ inline float ScoreGrad(const AttentionSizes& s, int query, float weight, float grad,
                                  const float* dots) {
  return query < s.t ? weight * (grad - dots[query]) * s.scale : 0.0f;
}

template <int kColumns, typename S>
__global__ void __launch_bounds__(kTileThreads)
    QueryGradKernel(AttentionSizes s, S* dqkv, const S* dout, const S* qkv, const float* lse,
                    const float* dots) {
  __shared__ TileMemory memory;
  const Work work = FindWork<kColumns>(s, /*last_first=*/true);
  const HeadGrad<S> head = MakeHeadGrad(s, work.head, dout, qkv, lse, dots);
  float dq[kEach][kColumns / kSide] = {};
  for (int first = 0; first <= work.first; first += kTile) {
    float scores[kEach][kEach], grads[kEach][kEach];
    MultiplyRows(head.q, work.first, head.k, first, memory, scores);
    MultiplyRows(head.dout, work.first, head.v, first, memory, grads);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int query = work.first + TileY() * kEach + i;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int key = first + TileX() + j * kSide;
        const float weight = FindWeight(s, query, key, scores[i][j], head.lse);
        grads[i][j] = ScoreGrad(s, query, weight, grads[i][j], head.dots);
      }
    }
    StoreWeights(grads, memory);
    AddWeighted<S, kColumns>(head.k, first, work.column, memory, dq);
  }
  PutTile<kColumns>(dqkv + s.QkvAt(work.head), s.qkv_row(), s, work, dq, /*accumulate=*/false);
}

// For a tile of keys, and of their values; rows of tiles are keys here, columns queries.
template <int kColumns, typename S>
__global__ void __launch_bounds__(kTileThreads, 1)
    KeyGradKernel(AttentionSizes s, S* dqkv, const S* dout, const S* qkv, const float* lse,
                  const float* dots) {
  __shared__ TileMemory memory;
  const Work work = FindWork<kColumns>(s, /*last_first=*/false);
  const HeadGrad<S> head = MakeHeadGrad(s, work.head, dout, qkv, lse, dots);
  float dk[kEach][kColumns / kSide] = {}, dv[kEach][kColumns / kSide] = {};
  for (int first = work.first; first < s.t; first += kTile) {
    float weights[kEach][kEach], grads[kEach][kEach];
    MultiplyRows(head.k, work.first, head.q, first, memory, weights);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int key = work.first + TileY() * kEach + i;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int query = first + TileX() + j * kSide;
        weights[i][j] = FindWeight(s, query, key, weights[i][j], head.lse);
      }
    }
    StoreWeights(weights, memory);
    AddWeighted<S, kColumns>(head.dout, first, work.column, memory, dv);
    MultiplyRows(head.v, work.first, head.dout, first, memory, grads);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int query = first + TileX() + j * kSide;
        grads[i][j] = ScoreGrad(s, query, weights[i][j], grads[i][j], head.dots);
      }
    }
    StoreWeights(grads, memory);
    AddWeighted<S, kColumns>(head.q, first, work.column, memory, dk);
  }
  S* to = dqkv + s.QkvAt(work.head);
  PutTile<kColumns>(to + s.out_row(), s.qkv_row(), s, work, dk, /*accumulate=*/false);
  PutTile<kColumns>(to + 2 * s.out_row(), s.qkv_row(), s, work, dv, /*accumulate=*/false);
}

absl::StatusOr<AttentionSizes> FindSizes(const KernelSetup& s, const Dims& qkv) {
  for (int64_t size : {qkv[1], qkv[3], qkv[4]}) {
    if (size > std::numeric_limits<int>::max() / kTile) {
      return absl::UnimplementedError(s.name + ": attention over " + std::to_string(size));
    }
  }
  const int d = static_cast<int>(qkv[4]);
  return AttentionSizes{qkv[0], static_cast<int>(qkv[1]), static_cast<int>(qkv[3]), d,
                        1.0f / std::sqrt(static_cast<float>(d))};
}

bool IsEmpty(const AttentionSizes& s) { return s.b * s.t * s.h * s.d == 0; }

LaunchShape TilesShape(const AttentionSizes& s, int columns) {
  LaunchShape shape{MakeGrid(s.b * s.h * s.tiles(kTile)), dim3(kTileThreads)};
  shape.grid.y = static_cast<unsigned>(DivideUp(s.d, columns));
  return shape;
}

// make(S(), Size<columns of a block>()) for heads of width d.
template <typename Make>
absl::StatusOr<Kernel> ForHeads(const KernelSetup& s, int d, Make make) {
  return ForStoredAs(s, s.out[0].dtype, [&](auto stored) {
    return d <= kTile ? make(stored, Size<kTile>()) : make(stored, Size<2 * kTile>());
  });
}

}  // namespace

absl::StatusOr<Kernel> MakeCausalAttention(const KernelSetup& setup) {
  ASSIGN_OR_RETURN(const AttentionSizes sizes, FindSizes(setup, In(setup, 0).local()));
  if (HasBf16Attention(setup.out[0].dtype, sizes)) {
    RETURN_IF_ERROR(AllowBf16Attention(sizes));
    return Kernel([s = sizes](const KernelCall& call) {
      if (IsEmpty(s)) return absl::OkStatus();
      return LaunchBf16Attention(s, FindStream(call), call.accumulate, call.output<Bf16>(0),
                                 call.output<float>(1), call.input<Bf16>(0));
    });
  }
  return ForHeads(setup, sizes.d, [&](auto stored, auto columns) {
    using S = decltype(stored);
    constexpr int kColumns = decltype(columns)::value;
    return Kernel([s = sizes](const KernelCall& call) {
      if (IsEmpty(s)) return absl::OkStatus();
      return Launch("causal_attention", &AttentionKernel<kColumns, S>, TilesShape(s, kColumns),
                    FindStream(call), s, call.accumulate, call.output<S>(0), call.output<float>(1),
                    call.input<S>(0));
    });
  });
}

absl::StatusOr<Kernel> MakeCausalAttentionGrad(const KernelSetup& setup) {
  ASSIGN_OR_RETURN(const AttentionSizes sizes, FindSizes(setup, In(setup, 1).local()));
  RETURN_IF_ERROR(NeedWorkspace(setup, AttentionGradScratch(sizes.b, sizes.h, sizes.t)));
  if (HasBf16Attention(setup.out[0].dtype, sizes)) RETURN_IF_ERROR(AllowBf16AttentionGrad(sizes));
  return ForHeads(setup, sizes.d, [&](auto stored, auto columns) {
    using S = decltype(stored);
    constexpr int kColumns = decltype(columns)::value;
    return Kernel([s = sizes, name = setup.name](const KernelCall& call) -> absl::Status {
      if (call.accumulate) {
        return absl::InternalError(name + ": an activation's gradient is not added up");
      }
      if (IsEmpty(s)) return absl::OkStatus();
      const S *dout = call.input<S>(0), *qkv = call.input<S>(1), *out = call.input<S>(2);
      const float* lse = call.input<float>(3);
      float* dots = reinterpret_cast<float*>(call.workspace.data());
      const LaunchShape rows{MakeGrid(DivideUp(s.b * s.h * s.t, kThreads / kWarp)), dim3(kThreads)};
      RETURN_IF_ERROR(Launch("causal_attention_grad", &RowDotsKernel<S>, rows, FindStream(call), s,
                             dots, dout, out));
      if constexpr (std::is_same_v<S, Bf16>) {
        if (HasBf16Attention(DType::kBF16, s)) {
          return LaunchBf16AttentionGrad(s, FindStream(call), call.output<S>(0), dout, qkv, lse,
                                         dots);
        }
      }
      const LaunchShape tiles = TilesShape(s, kColumns);
      RETURN_IF_ERROR(Launch("causal_attention_grad", &QueryGradKernel<kColumns, S>, tiles,
                             FindStream(call), s, call.output<S>(0), dout, qkv, lse, dots));
      return Launch("causal_attention_grad", &KeyGradKernel<kColumns, S>, tiles, FindStream(call),
                    s, call.output<S>(0), dout, qkv, lse, dots);
    });
  });
}

}  // namespace oneflow::cuda
