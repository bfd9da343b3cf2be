// Attention and its gradients, on q, k and v or on a packed qkv, for every shape and type. A block
// has a tile of queries of one head and iterates over the tiles of keys that they see, or the
// reverse; scores are computed when they are needed and never stored.
//
// For bf16, heads of 64 and 128 have separate kernels (attention_bf16.cu).
//
// Heads wider than 128 are split into parts of 128 columns, each with separate blocks, which
// recompute the scores.
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include "actor_runtime/cuda/kernel/attention.cuh"
#include "actor_runtime/cuda/kernel/attention_tile.cuh"
#include "actor_runtime/cuda/kernel/attention_tile_view.cuh"
#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "actor_runtime/kernel/qkv_strides.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/device/cuda_scratch.h"

namespace oneflow::cuda {
namespace {

// The queries of a head, and the keys or values of its group.
template <typename S>
__device__ Matrix<S> QueryMatrix(const AttentionSizes& s, const S* q, int64_t head) {
  return {q + s.QueryAt(head), s.q_row, s.t, s.d};
}
template <typename S>
__device__ Matrix<S> KeyMatrix(const AttentionSizes& s, const S* k, int64_t head) {
  return {k + s.KeyAt(head), s.kv_row, s.keys, s.d};
}
template <typename S>
__device__ Matrix<S> OutputMatrix(const AttentionSizes& s, const S* out, int64_t head) {
  return {out + s.OutAt(head), s.out_row(), s.t, s.d};
}

// The work of block blockIdx, a tile of the `rows` rows of a head. In causal attention tiles with
// more work come first.
struct Work {
  int64_t head;
  int first;   // row of the tile
  int column;  // first of its part of the columns
};
template <int kColumns>
__device__ Work FindWork(int rows, bool last_first) {
  const int tiles = (rows + kTile - 1) / kTile;
  const int tile = static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles));
  return {blockIdx.x / static_cast<unsigned>(tiles), (last_first ? tiles - 1 - tile : tile) * kTile,
          static_cast<int>(blockIdx.y) * kColumns};
}

// Writes this thread's elements of a tile, for those of the `rows` rows that exist.
template <int kColumns, typename S>
__device__ void PutTile(S* to, int64_t row, int rows, const AttentionSizes& s, const Work& work,
                        const float (&sums)[kEach][kColumns / kSide], bool accumulate) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int r = work.first + TileY() * kEach + i;
#pragma unroll
    for (int j = 0; j < kColumns / kSide; ++j) {
      const int c = work.column + TileX() + j * kSide;
      if (r < rows && c < s.d) Put(to + r * row + c, sums[i][j], accumulate);
    }
  }
}

// The score of a product of a query and a key.
__device__ inline float FindScore(const AttentionSizes& s, float product) {
  return (s.limit == 0 ? product : s.limit * tanhf(product * s.to_part)) * s.scale;
}

// Blocks of a multiprocessor at once, at least; 0: the compiler decides. It would rather spill the
// registers of spans than have one.
template <bool kBySpan>
inline constexpr int kBlocks = kBySpan ? 1 : 0;

template <int kColumns, bool kBySpan, typename S>
__global__ void __launch_bounds__(kTileThreads, kBlocks<kBySpan>)
    AttentionKernel(AttentionSizes s, Visibility visibility, bool accumulate, S* out, float* lse,
                    Qkv<const S> qkv, const float* sinks) {
  __shared__ TileMemory memory;
  const Work work = FindWork<kColumns>(s.t, /*last_first=*/true);
  const Matrix<S> q = QueryMatrix(s, qkv.q, work.head), k = KeyMatrix(s, qkv.k, work.head);
  const Matrix<S> v = KeyMatrix(s, qkv.v, work.head);
  TileView<kBySpan, /*kRowsAreKeys=*/false> view(s, visibility, work.head / s.h, work.first,
                                                 memory);
  float max[kEach], sum[kEach], result[kEach][kColumns / kSide];
  const float sink = s.Sink(sinks, work.head);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    max[i] = sink;
    sum[i] = sinks == nullptr ? 0.0f : 1.0f;
#pragma unroll
    for (int j = 0; j < kColumns / kSide; ++j) result[i][j] = 0;
  }
  for (int first = view.begin(); first < view.end(); first = view.Next(first)) {
    float p[kEach][kEach];
    MultiplyRows(q, work.first, k, first, memory, p);
    view.LookAt(first);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const auto row = view.Row(i);
      float top = max[i];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        p[i][j] = view.Sees(row, j) ? FindScore(s, p[i][j]) : -INFINITY;
        top = Larger()(top, p[i][j]);
      }
      top = WarpReduce(top, Larger(), kSide);
      // -inf - -inf is no number.
      const float shift = kBySpan && top == -INFINITY ? 0.0f : top;
      float total = 0;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        p[i][j] = expf(p[i][j] - shift);
        total += p[i][j];
      }
      const float shrink = expf(max[i] - shift);
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
    const float factor = kBySpan && sum[i] == 0 ? 0.0f : 1.0f / sum[i];  // a row that sees nothing
#pragma unroll
    for (int j = 0; j < kColumns / kSide; ++j) result[i][j] *= factor;
    if (query < s.t && TileX() == 0 && work.column == 0) {
      lse[s.LseAt(work.head) + query] = max[i] + logf(sum[i]);
    }
  }
  PutTile<kColumns>(out + s.OutAt(work.head), s.out_row(), s.t, s, work, result, accumulate);
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

// dsinks[h] = -Σ exp(sink - lse) dots over samples and queries. A block works on a head.
__global__ void __launch_bounds__(kThreads)
    SinksGradKernel(AttentionSizes s, bool accumulate, float* dsinks, const float* dots,
                    const float* lse, const float* sinks) {
  __shared__ float scratch[kThreads / kWarp];
  const float sink = sinks[blockIdx.x];
  float sum = 0;
  for (int64_t row = threadIdx.x; row < s.b * s.t; row += kThreads) {
    const int64_t at = s.LseAt(row / s.t * s.h + blockIdx.x) + row % s.t;
    sum -= expf(sink - lse[at]) * dots[at];
  }
  sum = BlockSum(sum, scratch, Scratch::kFree);
  if (threadIdx.x == 0) Put(dsinks + blockIdx.x, sum, accumulate);
}

// The inputs of the gradient of a head.
template <typename S>
struct HeadGrad {
  Matrix<S> q, k, v, dout;
  const float *lse, *dots;
};
template <typename S>
__device__ HeadGrad<S> MakeHeadGrad(const AttentionSizes& s, int64_t head, const S* dout,
                                    const Qkv<const S>& qkv, const float* lse, const float* dots) {
  return {QueryMatrix(s, qkv.q, head), KeyMatrix(s, qkv.k, head), KeyMatrix(s, qkv.v, head),
          OutputMatrix(s, dout, head), lse + s.LseAt(head),       dots + s.LseAt(head)};
}

// The weight of a key in the row of a query: 0 for one that it does not see, and for a query after
// the end.
__device__ inline float FindWeight(const AttentionSizes& s, int query, bool sees, float product,
                                   const float* lse) {
  return sees && query < s.t ? expf(FindScore(s, product) - lse[query]) : 0.0f;
}
// The gradient of a product of a query and a key, from their weight and its gradient. The weight
// tells the score, too.
template <typename S>
__device__ inline float ProductGrad(const AttentionSizes& s, int query, float weight, float grad,
                                    const HeadGrad<S>& head) {
  if (query >= s.t) return 0.0f;
  const float of_score = weight * (grad - head.dots[query]) * s.scale;
  if (s.limit == 0 || weight == 0) return of_score;
  const float part = (logf(weight) + head.lse[query]) / s.scale / s.limit;
  return of_score * (1.0f - part * part);
}

template <int kColumns, bool kBySpan, typename S>
__global__ void __launch_bounds__(kTileThreads, kBlocks<kBySpan>)
    QueryGradKernel(AttentionSizes s, Visibility visibility, Qkv<S> dqkv, const S* dout,
                    Qkv<const S> qkv, const float* lse, const float* dots) {
  __shared__ TileMemory memory;
  const Work work = FindWork<kColumns>(s.t, /*last_first=*/true);
  const HeadGrad<S> head = MakeHeadGrad(s, work.head, dout, qkv, lse, dots);
  TileView<kBySpan, /*kRowsAreKeys=*/false> view(s, visibility, work.head / s.h, work.first,
                                                 memory);
  float dq[kEach][kColumns / kSide] = {};
  for (int first = view.begin(); first < view.end(); first = view.Next(first)) {
    float scores[kEach][kEach], grads[kEach][kEach];
    MultiplyRows(head.q, work.first, head.k, first, memory, scores);
    MultiplyRows(head.dout, work.first, head.v, first, memory, grads);
    view.LookAt(first);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int query = work.first + TileY() * kEach + i;
      const auto row = view.Row(i);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const float weight = FindWeight(s, query, view.Sees(row, j), scores[i][j], head.lse);
        grads[i][j] = ProductGrad(s, query, weight, grads[i][j], head);
      }
    }
    StoreWeights(grads, memory);
    AddWeighted<S, kColumns>(head.k, first, work.column, memory, dq);
  }
  PutTile<kColumns>(dqkv.q + s.QueryAt(work.head), s.q_row, s.t, s, work, dq, /*accumulate=*/false);
}

// For a tile of keys of a group, and of their values; rows of tiles are keys here, columns queries
// of the heads of the group, one head after the other.
template <int kColumns, bool kBySpan, typename S>
__global__ void __launch_bounds__(kTileThreads, 1)
    KeyGradKernel(AttentionSizes s, Visibility visibility, Qkv<S> dqkv, const S* dout,
                  Qkv<const S> qkv, const float* lse, const float* dots) {
  __shared__ TileMemory memory;
  const Work work = FindWork<kColumns>(s.keys, /*last_first=*/false);
  TileView<kBySpan, /*kRowsAreKeys=*/true> view(s, visibility, work.head / s.g, work.first, memory);
  float dk[kEach][kColumns / kSide] = {}, dv[kEach][kColumns / kSide] = {};
  for (int i = 0; i < s.r; ++i) {
    const HeadGrad<S> head = MakeHeadGrad(s, work.head * s.r + i, dout, qkv, lse, dots);
    for (int first = view.begin(); first < view.end(); first = view.Next(first)) {
      float weights[kEach][kEach], grads[kEach][kEach];
      MultiplyRows(head.k, work.first, head.q, first, memory, weights);
      view.LookAt(first);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const auto row = view.Row(i);
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const int query = first + TileX() + j * kSide;
          weights[i][j] = FindWeight(s, query, view.Sees(row, j), weights[i][j], head.lse);
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
          grads[i][j] = ProductGrad(s, query, weights[i][j], grads[i][j], head);
        }
      }
      StoreWeights(grads, memory);
      AddWeighted<S, kColumns>(head.q, first, work.column, memory, dk);
    }
  }
  const int64_t at = s.GroupAt(work.head);
  PutTile<kColumns>(dqkv.k + at, s.kv_row, s.keys, s, work, dk, /*accumulate=*/false);
  PutTile<kColumns>(dqkv.v + at, s.kv_row, s.keys, s, work, dv, /*accumulate=*/false);
}

absl::StatusOr<AttentionSizes> FindSizes(const KernelSetup& s, bool packed, int q) {
  const bool parts_first = packed && BoolAttr(s, "parts_first");
  const QkvSizes n = packed ? PackedSizes(In(s, q).local(), parts_first)
                            : SeparateSizes(In(s, q).local(), In(s, q + 1).local());
  for (const int64_t size : {n.t, n.s, n.g * n.r, n.d}) {
    if (size > std::numeric_limits<int>::max() / kTile) {
      return absl::UnimplementedError(s.name + ": attention over " + std::to_string(size));
    }
  }
  const QkvStrides strides = packed ? PackedStrides(n, parts_first) : SeparateStrides(n);
  const int d = static_cast<int>(n.d);
  const float scale = FindScale<float>(DoubleAttr(s, "scale"), n.d);
  const float cap = static_cast<float>(DoubleAttr(s, "soft_cap"));
  return AttentionSizes{.b = n.b,
                        .t = static_cast<int>(n.t),
                        .keys = static_cast<int>(n.s),
                        .h = static_cast<int>(n.g * n.r),
                        .g = static_cast<int>(n.g),
                        .r = static_cast<int>(n.r),
                        .d = d,
                        .scale = scale,
                        .limit = cap / scale,
                        .to_part = cap == 0 ? 0 : scale / cap,
                        .q_sample = strides.sample[0],
                        .q_row = strides.row[0],
                        .q_group = strides.group[0],
                        .kv_sample = strides.sample[1],
                        .kv_row = strides.row[1],
                        .kv_group = strides.group[1]};
}

// A block a tile of the `rows` rows of each of `heads` heads or groups.
LaunchShape TilesShape(const AttentionSizes& s, int64_t heads, int rows, int columns) {
  LaunchShape shape{MakeGrid(heads * DivideUp(rows, kTile)), dim3(kTileThreads)};
  shape.grid.y = static_cast<unsigned>(DivideUp(s.d, columns));
  return shape;
}

// Finds what queries see, of a kind with input `base` the first that says where rows are: 2 give
// positions, 4 documents, too.
struct VisibilityFinder {
  int64_t window;
  int base, given;

  VisibilityFinder(const KernelSetup& s, int base)
      : window(IntAttr(s, "window")), base(base), given(static_cast<int>(s.in.size()) - base) {
    if (window > kWidestWindow) window = 0;
  }
  bool IsCausal() const { return window == 0 && given == 0; }
  Visibility Find(const KernelCall& call) const {
    const auto numbers = [&](int i) { return i < given ? call.input<int32_t>(base + i) : nullptr; };
    return {window, numbers(0), numbers(1), numbers(2), numbers(3)};
  }
};

// make(S(), Size<columns of a block>(), std::bool_constant<placed>()) for heads of width d.
template <typename Make>
absl::StatusOr<Kernel> ForHeads(const KernelSetup& s, int d, bool placed, Make make) {
  const auto with_columns = [&](auto stored, auto columns) {
    return placed ? make(stored, columns, std::true_type())
                  : make(stored, columns, std::false_type());
  };
  return ForStoredAs(s, s.out[0].dtype, [&](auto stored) {
    return d <= kTile ? with_columns(stored, Size<kTile>())
                      : with_columns(stored, Size<2 * kTile>());
  });
}

// Finds queries, keys and values among the inputs or outputs of a call.
struct PartsFinder {
  bool packed;
  int q;  // the packed tensor, or the first of three
  std::array<int64_t, 3> offset;

  template <typename S, typename Address>
  Qkv<S> Find(Address address) const {
    if (!packed) return {address(q), address(q + 1), address(q + 2)};
    S* all = address(q);
    return {all + offset[0], all + offset[1], all + offset[2]};
  }
  template <typename S>
  Qkv<const S> In(const KernelCall& call) const {
    return Find<const S>([&call](int i) { return call.input<S>(i); });
  }
  template <typename S>
  Qkv<S> Out(const KernelCall& call) const {
    return Find<S>([&](int i) { return call.output<S>(i - q); });
  }
};

PartsFinder MakeFinder(const KernelSetup& s, bool packed, int q) {
  if (!packed) return {packed, q, {}};
  const bool parts_first = BoolAttr(s, "parts_first");
  return {packed, q, PackedStrides(PackedSizes(In(s, q).local(), parts_first), parts_first).offset};
}

absl::StatusOr<Kernel> MakeForward(const KernelSetup& setup, bool packed) {
  ASSIGN_OR_RETURN(const AttentionSizes sizes, FindSizes(setup, packed, 0));
  const PartsFinder parts = MakeFinder(setup, packed, 0);
  const int sinks = BoolAttr(setup, "sinks") ? (packed ? 1 : 3) : -1;  // the input
  const VisibilityFinder visibility(setup, (packed ? 1 : 3) + (sinks < 0 ? 0 : 1));
  const auto find_sinks = [sinks](const KernelCall& call) {
    return sinks < 0 ? nullptr : call.input<float>(sinks);
  };
  const bool empty = sizes.b * sizes.t * sizes.h * sizes.d == 0;
  if (HasBf16Attention(setup.out[0].dtype, sizes)) {
    RETURN_IF_ERROR(AllowBf16Attention(sizes, visibility.IsCausal()));
    return Kernel([s = sizes, parts, find_sinks, visibility, empty](const KernelCall& call) {
      if (empty) return absl::OkStatus();
      return LaunchBf16Attention(s, visibility.Find(call), FindStream(call), call.accumulate,
                                 call.output<Bf16>(0), call.output<float>(1), parts.In<Bf16>(call),
                                 find_sinks(call));
    });
  }
  return ForHeads(setup, sizes.d, !visibility.IsCausal(),
                  [&]<typename S, int kColumns>(S, Size<kColumns>, auto placed) {
                    constexpr bool kBySpan = decltype(placed)::value;
                    return Kernel([=, s = sizes](const KernelCall& call) {
                      if (empty) return absl::OkStatus();
                      return Launch("attention", &AttentionKernel<kColumns, kBySpan, S>,
                                    TilesShape(s, s.b * s.h, s.t, kColumns), FindStream(call), s,
                                    visibility.Find(call), call.accumulate, call.output<S>(0),
                                    call.output<float>(1), parts.In<S>(call), find_sinks(call));
                    });
                  });
}

template <typename S>
absl::Status LaunchRowDots(const AttentionSizes& s, cudaStream_t stream, float* dots, const S* dout,
                           const S* out) {
  const int64_t rows = s.b * s.h * s.t;
  return Launch("attention_grad", &RowDotsKernel<S>,
                {MakeGrid(DivideUp(rows, kThreads / kWarp)), dim3(kThreads)}, stream, s, dots, dout,
                out);
}

absl::StatusOr<Kernel> MakeBackward(const KernelSetup& setup, bool packed) {
  ASSIGN_OR_RETURN(const AttentionSizes sizes, FindSizes(setup, packed, 1));
  const PartsFinder parts = MakeFinder(setup, packed, 1);
  const int out_input = packed ? 2 : 4;
  const VisibilityFinder visibility(setup, out_input + 2);
  RETURN_IF_ERROR(NeedWorkspace(setup, AttentionGradScratch(sizes.b * sizes.h * sizes.t)));
  const int64_t queries = sizes.b * sizes.h * sizes.t, keys = sizes.b * sizes.g * sizes.keys;
  const bool fast = HasBf16Attention(setup.out[0].dtype, sizes) && queries > 0 && keys > 0;
  if (fast) RETURN_IF_ERROR(AllowBf16AttentionGrad(sizes, visibility.IsCausal()));
  return ForHeads(
      setup, sizes.d, !visibility.IsCausal(),
      [&]<typename S, int kColumns>(S, Size<kColumns>, auto placed) {
        constexpr bool kBySpan = decltype(placed)::value;
        return Kernel([s = sizes, parts, out_input, visibility, queries, keys, fast,
                       name = setup.name](const KernelCall& call) -> absl::Status {
          if (call.accumulate) {
            return absl::InternalError(name + ": an activation's gradient is not added up");
          }
          if (s.d == 0) return absl::OkStatus();
          const S *dout = call.input<S>(0), *out = call.input<S>(out_input);
          const float* lse = call.input<float>(out_input + 1);
          const Qkv<const S> qkv = parts.In<S>(call);
          const Qkv<S> dqkv = parts.Out<S>(call);
          const Visibility seen = visibility.Find(call);
          float* dots = reinterpret_cast<float*>(call.workspace.data());
          if (queries > 0) {
            RETURN_IF_ERROR(LaunchRowDots(s, FindStream(call), dots, dout, out));
            if constexpr (std::is_same_v<S, Bf16>) {
              if (fast) {
                return LaunchBf16AttentionGrad(s, seen, FindStream(call), dqkv, dout, qkv, lse,
                                               dots);
              }
            }
            RETURN_IF_ERROR(Launch("attention_grad", &QueryGradKernel<kColumns, kBySpan, S>,
                                   TilesShape(s, s.b * s.h, s.t, kColumns), FindStream(call), s,
                                   seen, dqkv, dout, qkv, lse, dots));
          }
          if (keys == 0) return absl::OkStatus();
          // The gradients of keys that no head reads are zeros.
          return Launch("attention_grad", &KeyGradKernel<kColumns, kBySpan, S>,
                        TilesShape(s, s.b * s.g, s.keys, kColumns), FindStream(call), s, seen, dqkv,
                        dout, qkv, lse, dots);
        });
      });
}

absl::StatusOr<Kernel> MakeAttentionSinksGrad(const KernelSetup& setup) {
  // Those of dout, with as many keys.
  ASSIGN_OR_RETURN(const AttentionSizes sizes, FindSizes(setup, /*packed=*/false, /*q=*/0));
  RETURN_IF_ERROR(NeedWorkspace(setup, AttentionGradScratch(sizes.b * sizes.h * sizes.t)));
  return ForStoredAs(setup, In(setup, 1).dtype, [&]<typename S>(S) {
    return Kernel([s = sizes](const KernelCall& call) -> absl::Status {
      if (s.h == 0) return absl::OkStatus();
      float* dots = reinterpret_cast<float*>(call.workspace.data());
      if (s.b * s.t > 0) {
        RETURN_IF_ERROR(
            LaunchRowDots(s, FindStream(call), dots, call.input<S>(0), call.input<S>(1)));
      }
      return Launch("attention_sinks_grad", &SinksGradKernel, {MakeGrid(s.h), dim3(kThreads)},
                    FindStream(call), s, call.accumulate, call.output<float>(0), dots,
                    call.input<float>(2), call.input<float>(3));
    });
  });
}

absl::StatusOr<Kernel> MakeAttention(const KernelSetup& s) { return MakeForward(s, false); }
absl::StatusOr<Kernel> MakePackedAttention(const KernelSetup& s) { return MakeForward(s, true); }
absl::StatusOr<Kernel> MakeAttentionGrad(const KernelSetup& s) { return MakeBackward(s, false); }
absl::StatusOr<Kernel> MakePackedAttentionGrad(const KernelSetup& s) {
  return MakeBackward(s, true);
}

}  // namespace

KernelTable AttentionTable() {
  return {{"attention", MakeAttention},
          {"attention_grad", MakeAttentionGrad},
          {"attention_sinks_grad", MakeAttentionSinksGrad},
          {"packed_attention", MakePackedAttention},
          {"packed_attention_grad", MakePackedAttentionGrad}};
}

}  // namespace oneflow::cuda
