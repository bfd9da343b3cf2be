// Attention of bf16 and its gradient in heads of 64 or 128, by warp products of small matrices
// (attention_bf16_tile.cuh). A block of four warps has a tile of queries and iterates over the
// tiles of keys that they see (attention_bf16_view.cuh), prefetching the next one; the gradient of
// keys and values iterates the other way round. Sums and statistics are f32; weights are rounded to
// bf16 to be multiplied.
#include <cmath>
#include <type_traits>

#include "actor_runtime/cuda/kernel/attention.cuh"
#include "actor_runtime/cuda/kernel/attention_bf16_tile.cuh"
#include "actor_runtime/cuda/kernel/attention_bf16_view.cuh"
#include "actor_runtime/cuda/kernel/numeric.cuh"
#include "actor_runtime/cuda/kernel/support.cuh"
#include "oneflow_core/base/status.h"

namespace oneflow::cuda {
namespace {

// The work of a block: a tile of 64 kM of the `rows` rows of a head.
struct Work {
  int64_t head;
  int first;  // row of the tile
  int mine;   // first row of this warp
};
template <int kM>
__device__ inline Work FindWork(int rows, bool last_first) {
  constexpr int kRows = 64 * kM;
  const int tiles = (rows + kRows - 1) / kRows;
  const int tile = static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles));
  const int first = (last_first ? tiles - 1 - tile : tile) * kRows;
  return {blockIdx.x / static_cast<unsigned>(tiles), first, first + WarpIndex() * 16 * kM};
}

// visit(m, n, i, element) for each element of a product.
template <int kM, int kN, typename Visit>
__device__ inline void ForElements(Product<kM, kN>& product, Visit visit) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) visit(m, n, i, product.at[m][n][i]);
    }
  }
}

// Products of queries and keys become capped scores divided by the scale.
template <int kM, int kN>
__device__ inline void CapScores(const AttentionSizes& s, Product<kM, kN>& products) {
  ForElements(products, [&](int, int, int, float& x) { x = s.limit * FastTanh(x * s.to_part); });
}

// The gradient of a score becomes that of its product, from the weight, which tells the score.
__device__ inline float UncapGrad(const AttentionSizes& s, float weight, float exponent,
                                  float grad) {
  if (weight == 0) return 0.0f;
  const float part = (FastLog2(weight) + exponent) * (s.to_part / (s.scale * kLog2E));
  return grad * (1.0f - part * part);
}

template <int kD, int kM, int kStep, bool kBySpan, bool kCapped>
__global__ void __launch_bounds__(kBlockThreads)
    Bf16AttentionKernel(AttentionSizes s, Visibility visibility, bool accumulate, Bf16* out,
                        float* lse, Qkv<const Bf16> qkv, const float* sinks) {
  constexpr int kRows = 64 * kM, kN = kStep / 8;
  Bf16* queries = DynamicShared<Bf16>();
  Bf16* keys = queries + kRows * kD;     // [2][kStep][kD]
  Bf16* values = keys + 2 * kStep * kD;  // [2][kStep][kD]
  const Work work = FindWork<kM>(s.t, /*last_first=*/true);
  const Bf16* q = qkv.q + s.QueryAt(work.head);
  const Bf16 *k = qkv.k + s.KeyAt(work.head), *v = qkv.v + s.KeyAt(work.head);
  const View<kBySpan, /*kRowsAreKeys=*/false, kM, kStep> view(
      s, visibility, static_cast<int>(work.head / s.h), work.first, work.mine,
      reinterpret_cast<ViewScratch*>(values + 2 * kStep * kD));
  const float to_exponent = s.scale * kLog2E;

  LoadTile<kRows, kD>(queries, q, s.q_row, work.first, s.t);
  LoadTile<kStep, kD>(keys, k, s.kv_row, view.begin, s.keys);
  LoadTile<kStep, kD>(values, v, s.kv_row, view.begin, s.keys);
  EndCopies();
  Product<kM, kD / 8> result;
  result.Clear();
  // Sums are those of lanes, of which the first of four has the sink.
  const float top_sink = s.Sink(sinks, work.head) / s.scale;
  const float of_sink = sinks == nullptr || LaneIndex() % kQuad != 0 ? 0.0f : 1.0f;
  float max[kM][2], sum[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    max[m][0] = max[m][1] = top_sink;
    sum[m][0] = sum[m][1] = of_sink;
  }
  for (int first = view.begin, next, stage = 0; first < view.end; first = next, stage ^= 1) {
    next = view.Next(first);
    if (next < view.end) {
      const int to = (stage ^ 1) * kStep * kD;
      LoadTile<kStep, kD>(keys + to, k, s.kv_row, next, s.keys);
      LoadTile<kStep, kD>(values + to, v, s.kv_row, next, s.keys);
    }
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (const Sight sight = view.At(first); sight != Sight::kNone) {
      Product<kM, kN> p;
      MultiplyRows<kD>(queries, work.mine - work.first, keys + stage * kStep * kD, p);
      if constexpr (kCapped) CapScores(s, p);
      if (sight == Sight::kSome) view.Hide(first, p);
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
          // A row that has seen nothing yet is not shrunk: -inf - -inf is no number.
          const float base = kBySpan && top == -INFINITY ? 0.0f : top;
          const float shrink = FastExp2((max[m][half] - base) * to_exponent);
          const float shift = base * to_exponent;
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
      const float divisor =
          kBySpan && total == 0 ? 1.0f : total;  // zeros of a row that sees nothing
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) {
        result.at[m][n][2 * half] /= divisor;
        result.at[m][n][2 * half + 1] /= divisor;
      }
      const int query = work.mine + RowIn(m, 2 * half);
      if (query < s.t && LaneIndex() % kQuad == 0) {
        lse[s.LseAt(work.head) + query] = max[m][half] * s.scale + logf(total);
      }
    }
  }
  PutRows(out + s.OutAt(work.head), s.out_row(), work.mine, s.t, result, accumulate);
}

// The weight of a score, 0 for a masked one; `exponent` as of RowExponent.
__device__ inline float FindWeight(float score, float to_exponent, float exponent) {
  return FastExp2(score * to_exponent - exponent);
}
// Of the lse of a row: infinite for one that sees nothing, whose scores are all masked.
template <bool kBySpan>
__device__ inline float RowExponent(float lse) {
  return kBySpan && lse == -INFINITY ? INFINITY : lse * kLog2E;
}

template <int kD, int kM, int kStep, bool kBySpan, bool kCapped>
__global__ void __launch_bounds__(kBlockThreads)
    Bf16QueryGradKernel(AttentionSizes s, Visibility visibility, Qkv<Bf16> dqkv, const Bf16* dout,
                        Qkv<const Bf16> qkv, const float* lse, const float* dots) {
  constexpr int kRows = 64 * kM, kN = kStep / 8;
  Bf16* queries = DynamicShared<Bf16>();
  Bf16* outs = queries + kRows * kD;     // [kRows][kD]: dout
  Bf16* keys = outs + kRows * kD;        // [2][kStep][kD]
  Bf16* values = keys + 2 * kStep * kD;  // [2][kStep][kD]
  const Work work = FindWork<kM>(s.t, /*last_first=*/true);
  const Bf16* q = qkv.q + s.QueryAt(work.head);
  const Bf16 *k = qkv.k + s.KeyAt(work.head), *v = qkv.v + s.KeyAt(work.head);
  const View<kBySpan, /*kRowsAreKeys=*/false, kM, kStep> view(
      s, visibility, static_cast<int>(work.head / s.h), work.first, work.mine,
      reinterpret_cast<ViewScratch*>(values + 2 * kStep * kD));
  const float to_exponent = s.scale * kLog2E;

  LoadTile<kRows, kD>(queries, q, s.q_row, work.first, s.t);
  LoadTile<kRows, kD>(outs, dout + s.OutAt(work.head), s.out_row(), work.first, s.t);
  LoadTile<kStep, kD>(keys, k, s.kv_row, view.begin, s.keys);
  LoadTile<kStep, kD>(values, v, s.kv_row, view.begin, s.keys);
  EndCopies();
  float row_lse[kM][2], row_dot[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = work.mine + RowIn(m, 2 * half);
      const int64_t at = s.LseAt(work.head) + query;
      row_lse[m][half] = query < s.t ? RowExponent<kBySpan>(lse[at]) : INFINITY;
      row_dot[m][half] = query < s.t ? dots[at] : 0.0f;
    }
  }
  Product<kM, kD / 8> dq;
  dq.Clear();
  for (int first = view.begin, next, stage = 0; first < view.end; first = next, stage ^= 1) {
    next = view.Next(first);
    if (next < view.end) {
      const int to = (stage ^ 1) * kStep * kD;
      LoadTile<kStep, kD>(keys + to, k, s.kv_row, next, s.keys);
      LoadTile<kStep, kD>(values + to, v, s.kv_row, next, s.keys);
    }
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (const Sight sight = view.At(first); sight != Sight::kNone) {
      const int mine = work.mine - work.first;
      Product<kM, kN> p, grads;
      MultiplyRows<kD>(queries, mine, keys + stage * kStep * kD, p);
      MultiplyRows<kD>(outs, mine, values + stage * kStep * kD, grads);
      if constexpr (kCapped) CapScores(s, p);
      if (sight == Sight::kSome) view.Hide(first, p);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
#pragma unroll
        for (int n = 0; n < kN; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            p.at[m][n][i] = FindWeight(p.at[m][n][i], to_exponent, row_lse[m][i / 2]);
            grads.at[m][n][i] = p.at[m][n][i] * (grads.at[m][n][i] - row_dot[m][i / 2]);
          }
        }
      }
      if constexpr (kCapped) {
        ForElements(grads, [&](int m, int n, int i, float& grad) {
          grad = UncapGrad(s, p.at[m][n][i], row_lse[m][i / 2], grad);
        });
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
template <int kD, int kM, int kQueries, bool kBySpan, bool kCapped>
__global__ void __launch_bounds__(kBlockThreads)
    Bf16KeyGradKernel(AttentionSizes s, Visibility visibility, Qkv<Bf16> dqkv, const Bf16* dout,
                      Qkv<const Bf16> qkv, const float* lse, const float* dots) {
  constexpr int kRows = 64 * kM, kN = kQueries / 8;
  Bf16* keys = DynamicShared<Bf16>();
  Bf16* values = keys + kRows * kD;
  Bf16* queries = values + kRows * kD;                                    // [2][kQueries][kD]
  Bf16* outs = queries + 2 * kQueries * kD;                               // [2][kQueries][kD]: dout
  float2* numbers = reinterpret_cast<float2*>(outs + 2 * kQueries * kD);  // [2][kQueries]: lse, dot
  const Work work = FindWork<kM>(s.keys, /*last_first=*/false);
  const int64_t group = s.GroupAt(work.head);
  const Bf16 *k = qkv.k + group, *v = qkv.v + group;
  const float to_exponent = s.scale * kLog2E;
  const View<kBySpan, /*kRowsAreKeys=*/true, kM, kQueries> view(
      s, visibility, static_cast<int>(work.head / s.g), work.first, work.mine,
      reinterpret_cast<ViewScratch*>(numbers + 2 * kQueries));
  const auto load = [&](int i, int first, int stage) {  // of head i of the group
    const int at = stage * kQueries * kD;
    const int64_t head = work.head * s.r + i;
    LoadTile<kQueries, kD>(queries + at, qkv.q + s.QueryAt(head), s.q_row, first, s.t);
    LoadTile<kQueries, kD>(outs + at, dout + s.OutAt(head), s.out_row(), first, s.t);
    const int r = static_cast<int>(threadIdx.x);
    if (r >= kQueries) return;
    const bool there = first + r < s.t;
    const int64_t row = s.LseAt(head) + first + r;
    numbers[stage * kQueries + r] =
        there ? float2{RowExponent<kBySpan>(lse[row]), dots[row]} : float2{INFINITY, 0.0f};
  };

  LoadTile<kRows, kD>(keys, k, s.kv_row, work.first, s.keys);
  LoadTile<kRows, kD>(values, v, s.kv_row, work.first, s.keys);
  const int heads = view.begin < view.end ? s.r : 0;
  if (heads > 0) load(0, view.begin, 0);
  EndCopies();
  Product<kM, kD / 8> dk, dv;
  dk.Clear();
  dv.Clear();
  for (int i = 0, first = view.begin, stage = 0; i < heads; stage ^= 1) {
    const int current = first;
    first = view.Next(first);
    if (first >= view.end) first = view.begin, ++i;
    if (i < heads) load(i, first, stage ^ 1);
    EndCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (const Sight sight = view.At(current); sight != Sight::kNone) {
      const int mine = work.mine - work.first;
      const Bf16 *tile_q = queries + stage * kQueries * kD, *tile_o = outs + stage * kQueries * kD;
      Product<kM, kN> p, grads;
      MultiplyRows<kD>(keys, mine, tile_q, p);
      if constexpr (kCapped) CapScores(s, p);
      if (sight == Sight::kSome) view.Hide(current, p);
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
      if constexpr (kCapped) {
        ForElements(grads, [&](int m, int n, int i, float& grad) {
          const float exponent = numbers[stage * kQueries + ColumnIn(n, i)].x;
          grad = UncapGrad(s, p.at[m][n][i], exponent, grad);
        });
      }
      AddWeighted<kD>(grads, tile_q, dk);
    }
    __syncthreads();  // The stage may be written again.
  }
  WaitForCopies<0>();
  dk.Scale(s.scale);
  PutRows(dqkv.k + group, s.kv_row, work.mine, s.keys, dk, /*accumulate=*/false);
  PutRows(dqkv.v + group, s.kv_row, work.mine, s.keys, dv, /*accumulate=*/false);
}

// A block a tile of 64 kM of the `rows` rows of each of `heads` heads or groups. All shared memory
// is dynamic: only that may be more than 48 KiB.
template <int kM>
LaunchShape TilesShape(int64_t heads, int rows, size_t shared_bytes) {
  return {MakeGrid(heads * DivideUp(rows, 64 * kM)), dim3(kBlockThreads), shared_bytes};
}

// Shared memory: `kept` tiles of 64 kM rows, four of kStep rows that pass, and `numbers` of four
// bytes, besides what a view needs.
template <int kD, int kM, int kStep, bool kBySpan>
constexpr size_t SharedBytes(int kept, int numbers) {
  return (kept * 64 * kM + 4 * kStep) * kD * sizeof(Bf16) + numbers * 4 +
         (kBySpan ? sizeof(ViewScratch) : 0);
}

// The kernels for heads of kD: tiles of 64 kM queries, and steps of kStep keys.
template <int kD, int kM, int kStep, bool kBySpan, bool kCapped>
struct Forward {
  static constexpr auto* kKernel = &Bf16AttentionKernel<kD, kM, kStep, kBySpan, kCapped>;
  static constexpr size_t kBytes = SharedBytes<kD, kM, kStep, kBySpan>(/*kept=*/1, /*numbers=*/0);

  absl::Status Allow() const { return AllowShared("attention_bf16", kKernel, kBytes); }
  template <typename... P>
  absl::Status Run(const AttentionSizes& s, cudaStream_t stream, P... arguments) const {
    return Launch("attention_bf16", kKernel, TilesShape<kM>(s.b * s.h, s.t, kBytes), stream, s,
                  arguments...);
  }
};
// Likewise, and tiles of 64 kKeysM keys, and steps of kQueries queries.
template <int kD, int kM, int kStep, int kKeysM, int kQueries, bool kBySpan, bool kCapped>
struct Backward {
  static constexpr auto* kOfQueries = &Bf16QueryGradKernel<kD, kM, kStep, kBySpan, kCapped>;
  static constexpr auto* kOfKeys = &Bf16KeyGradKernel<kD, kKeysM, kQueries, kBySpan, kCapped>;
  static constexpr size_t kQueriesBytes = SharedBytes<kD, kM, kStep, kBySpan>(2, 0);
  static constexpr size_t kKeysBytes =
      SharedBytes<kD, kKeysM, kQueries, kBySpan>(2, /*numbers=*/4 * kQueries);

  absl::Status Allow() const {
    RETURN_IF_ERROR(AllowShared("attention_grad_bf16", kOfQueries, kQueriesBytes));
    return AllowShared("attention_grad_bf16", kOfKeys, kKeysBytes);
  }
  template <typename... P>
  absl::Status Run(const AttentionSizes& s, cudaStream_t stream, P... arguments) const {
    RETURN_IF_ERROR(Launch("attention_grad_bf16", kOfQueries,
                           TilesShape<kM>(s.b * s.h, s.t, kQueriesBytes), stream, s, arguments...));
    return Launch("attention_grad_bf16", kOfKeys, TilesShape<kKeysM>(s.b * s.g, s.keys, kKeysBytes),
                  stream, s, arguments...);
  }
};

// call(bool_constant<by span>, bool_constant<capped>): capped scores have no causal text.
template <typename Call>
absl::Status WithForm(const AttentionSizes& s, bool causal, Call call) {
  if (s.limit != 0) return call(std::true_type(), std::true_type());
  return causal ? call(std::false_type(), std::false_type())
                : call(std::true_type(), std::false_type());
}
// call(the kernels for heads of d).
template <typename Call>
absl::Status WithForward(const AttentionSizes& s, bool causal, Call call) {
  return WithForm(
      s, causal,
      [&]<bool kBySpan, bool kCapped>(std::bool_constant<kBySpan>, std::bool_constant<kCapped>) {
        return s.d == 64
                   ? call(Forward<64, 2, 64, kBySpan, kCapped>())
                   // Smaller tiles of queries leave registers for the caps.
                   : call(Forward < 128, kCapped ? 1 : 2, kCapped ? 64 : 32, kBySpan, kCapped > ());
      });
}
template <typename Call>
absl::Status WithBackward(const AttentionSizes& s, bool causal, Call call) {
  return WithForm(
      s, causal,
      [&]<bool kBySpan, bool kCapped>(std::bool_constant<kBySpan>, std::bool_constant<kCapped>) {
        return s.d == 64 ? call(Backward<64, 2, 32, 1, 64, kBySpan, kCapped>())
                         : call(Backward<128, 1, 64, 1, 32, kBySpan, kCapped>());
      });
}

}  // namespace

absl::Status AllowBf16Attention(const AttentionSizes& s, bool causal) {
  return WithForward(s, causal, [](auto kernels) { return kernels.Allow(); });
}
absl::Status AllowBf16AttentionGrad(const AttentionSizes& s, bool causal) {
  return WithBackward(s, causal, [](auto kernels) { return kernels.Allow(); });
}
absl::Status LaunchBf16Attention(const AttentionSizes& s, const Visibility& visibility,
                                 cudaStream_t stream, bool accumulate, Bf16* out, float* lse,
                                 const Qkv<const Bf16>& qkv, const float* sinks) {
  return WithForward(s, visibility.IsCausal(), [&](auto kernels) {
    return kernels.Run(s, stream, visibility, accumulate, out, lse, qkv, sinks);
  });
}
absl::Status LaunchBf16AttentionGrad(const AttentionSizes& s, const Visibility& visibility,
                                     cudaStream_t stream, const Qkv<Bf16>& dqkv, const Bf16* dout,
                                     const Qkv<const Bf16>& qkv, const float* lse,
                                     const float* dots) {
  return WithBackward(s, visibility.IsCausal(), [&](auto kernels) {
    return kernels.Run(s, stream, visibility, dqkv, dout, qkv, lse, dots);
  });
}

}  // namespace oneflow::cuda
