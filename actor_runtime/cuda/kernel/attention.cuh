// Sizes of attention, and its kernels for bf16. Internal to cuda/kernel.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/tensor/bf16.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow::cuda {

// Sizes of a local piece, t queries and as many or other `keys` of each sample, and the positions
// of its heads: h of queries, r of which share the keys and values of one of g groups. A piece may
// have groups without a head.
struct AttentionSizes {
  int64_t b;
  int t, keys, h, g, r, d;
  float scale;
  float limit, to_part;  // unless 0, products become limit * tanh(product * to_part)
  // Elements of queries, and of keys and values, from one sample, position or group to the next.
  int64_t q_sample, q_row, q_group, kv_sample, kv_row, kv_group;

  __device__ int64_t out_row() const { return static_cast<int64_t>(h) * d; }
  // For head i: where it starts in queries, its group in keys and values; in out, in lse[b, h, t].
  // The heads of group j are j r .. j r + r - 1.
  __device__ int64_t QueryAt(int64_t i) const {
    return i / h * q_sample + i % h / r * q_group + i % r * d;
  }
  __device__ int64_t KeyAt(int64_t i) const { return i / h * kv_sample + i % h / r * kv_group; }
  // Where group j starts in keys and values.
  __device__ int64_t GroupAt(int64_t j) const { return j / g * kv_sample + j % g * kv_group; }
  __device__ int64_t OutAt(int64_t i) const { return i / h * t * out_row() + i % h * d; }
  __device__ int64_t LseAt(int64_t i) const { return i * t; }
  // The sink of head i; -infinity without sinks.
  __device__ float Sink(const float* sinks, int64_t i) const {
    return sinks == nullptr ? -INFINITY : sinks[i % h];
  }
};

// Which keys a query sees: those of its document at its position or before it, but none `window` or
// more before it (0: no limit). Without positions they are the numbers of rows; without documents,
// which come with positions only, there is one. Those of queries and of keys come together.
struct Visibility {
  int64_t window;                                                        // at most kWidestWindow
  const int32_t *q_positions, *k_positions, *q_documents, *k_documents;  // or null

  bool IsCausal() const { return window == 0 && q_positions == nullptr; }
};
// Positions differ by less, so wider windows are no limit.
inline constexpr int64_t kWidestWindow = int64_t{1} << 32;

// Queries, keys and values, or their gradients: of three tensors, or in a packed one.
template <typename S>
struct Qkv {
  S *q, *k, *v;
};

// True if the two below serve tensors of this type and these sizes.
inline bool HasBf16Attention(DType dtype, const AttentionSizes& s) {
  return dtype == DType::kBF16 && s.h > 0 && (s.d == 64 || s.d == 128);
}

// Called once on the device before their launches; `causal` as Visibility::IsCausal() of them.
// attention_bf16.cu.
absl::Status AllowBf16Attention(const AttentionSizes& s, bool causal);
absl::Status AllowBf16AttentionGrad(const AttentionSizes& s, bool causal);
// Launches on `stream`; there are queries.
// Sinks may be null.
absl::Status LaunchBf16Attention(const AttentionSizes& s, const Visibility& visibility,
                                 cudaStream_t stream, bool accumulate, Bf16* out, float* lse,
                                 const Qkv<const Bf16>& qkv, const float* sinks);
// Launches on `stream`; there are queries and keys. `dots`: Σ dout out of each row, [b, h, t].
absl::Status LaunchBf16AttentionGrad(const AttentionSizes& s, const Visibility& visibility,
                                     cudaStream_t stream, const Qkv<Bf16>& dqkv, const Bf16* dout,
                                     const Qkv<const Bf16>& qkv, const float* lse,
                                     const float* dots);

}  // namespace oneflow::cuda
