// Sizes of attention, and its kernels for bf16. Internal to cuda/kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/tensor/bf16.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow::cuda {

// Sizes of a local piece, and the positions of its heads.
struct AttentionSizes {
  int64_t b;
  int t, h, d;
  float scale;

  __host__ __device__ int tiles(int rows) const { return (t + rows - 1) / rows; }
  __device__ int64_t out_row() const { return static_cast<int64_t>(h) * d; }
  __device__ int64_t qkv_row() const { return 3 * out_row(); }
  // For head i: where it starts in qkv, in out, in lse[b, h, t].
  __device__ int64_t QkvAt(int64_t i) const { return i / h * t * qkv_row() + i % h * d; }
  __device__ int64_t OutAt(int64_t i) const { return i / h * t * out_row() + i % h * d; }
  __device__ int64_t LseAt(int64_t i) const { return i * t; }
};

// True if the two below serve tensors of this type and these sizes.
inline bool HasBf16Attention(DType dtype, const AttentionSizes& s) {
  return dtype == DType::kBF16 && (s.d == 64 || s.d == 128);
}

// Called once on the device before their launches. attention_bf16.cu.
absl::Status AllowBf16Attention(const AttentionSizes& s);
absl::Status AllowBf16AttentionGrad(const AttentionSizes& s);
// Launches on `stream`; sizes are not 0.
absl::Status LaunchBf16Attention(const AttentionSizes& s, cudaStream_t stream, bool accumulate,
                                 Bf16* out, float* lse, const Bf16* qkv);
// `dots`: Σ dout out of each row, [b, h, t].
absl::Status LaunchBf16AttentionGrad(const AttentionSizes& s, cudaStream_t stream, Bf16* dqkv,
                                     const Bf16* dout, const Bf16* qkv, const float* lse,
                                     const float* dots);

}  // namespace oneflow::cuda
