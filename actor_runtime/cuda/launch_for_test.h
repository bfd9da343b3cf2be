// Small kernels that use the features which kernels may use. Pointers are of device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

namespace oneflow::cuda {

// y[i] += a * x[i].
absl::Status AddScaled(float a, const float* x, float* y, int64_t n, cudaStream_t stream);

// sums[b] = the sum of x[b * 256 .. b * 256 + 255], by a tree in shared memory, of `blocks` blocks.
absl::Status BlockSums(const float* x, float* sums, int blocks, cudaStream_t stream);

// The same by warp shuffles, from lanes to warps.
absl::Status WarpSums(const float* x, float* sums, int blocks, cudaStream_t stream);

// y (columns x rows) = x (rows x columns) transposed, by tiles in dynamic shared memory.
absl::Status Transpose(const float* x, float* y, int rows, int columns, cudaStream_t stream);

// For each warp of 32 numbers: votes[warp] has bit i set if x[i] is negative, y is x as bf16 and
// back, each lane's number given to the next lane of its half warp.
absl::Status VoteAndRotate(const float* x, float* y, unsigned* votes, int warps,
                           cudaStream_t stream);

// A block of more than 48 KiB of dynamic shared memory, which is allowed first:
// y[i] = x[n - 1 - i], n up to 56,000.
absl::Status AllowReverse(int n);
absl::Status Reverse(const float* x, float* y, int n, cudaStream_t stream);

// A grid of no blocks: an error.
absl::Status LaunchNothing(cudaStream_t stream);

}  // namespace oneflow::cuda
