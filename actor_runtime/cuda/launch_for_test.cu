#include "actor_runtime/cuda/launch_for_test.h"

#include <cuda_bf16.h>

#include "actor_runtime/cuda/launch.cuh"

namespace oneflow::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;

__global__ void AddScaledKernel(float a, const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}

__global__ void BlockSumsKernel(const float* x, float* sums) {
  __shared__ float parts[kThreads];
  const int i = threadIdx.x;
  parts[i] = x[blockIdx.x * kThreads + i];
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) parts[i] += parts[i + half];
  }
  if (i == 0) sums[blockIdx.x] = parts[0];
}

template <typename T>
__device__ T WarpSum(T value) {
#pragma unroll
  for (int bit = 16; bit > 0; bit /= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
  return value;
}

template <typename T>
__global__ void WarpSumsKernel(const T* x, T* sums) {
  __shared__ T parts[kThreads / 32];
  const int i = threadIdx.x, warp = i / 32, lane = i % 32;
  const T sum = WarpSum(x[blockIdx.x * kThreads + i]);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  const T total = WarpSum(lane < kThreads / 32 ? parts[lane] : T{0});
  if (lane == 0) sums[blockIdx.x] = total;
}

__global__ void TransposeKernel(const float* x, float* y, int rows, int columns) {
  float* tile = DynamicShared<float>();
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  for (int r = threadIdx.y; r < kTile; r += blockDim.y) {
    const int c = threadIdx.x;
    if (row + r < rows && column + c < columns) {
      tile[r * (kTile + 1) + c] = x[(row + r) * columns + column + c];
    }
  }
  __syncthreads();
  for (int c = threadIdx.y; c < kTile; c += blockDim.y) {
    const int r = threadIdx.x;
    if (row + r < rows && column + c < columns) {
      y[(column + c) * rows + row + r] = tile[r * (kTile + 1) + c];
    }
  }
}

__global__ void VoteAndRotateKernel(const float* x, float* y, unsigned* votes) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = i % 32;
  const float value = __bfloat162float(__float2bfloat16_rn(x[i]));
  const unsigned vote = __ballot_sync(0xffffffffu, value < 0);
  if (lane == 0) votes[i / 32] = vote;
  __syncwarp();
  y[i] = __shfl_sync(0xffffffffu, value, lane + 15, 16);
}

__global__ void ReverseKernel(const float* x, float* y, int n) {
  float* all = DynamicShared<float>();
  for (int i = threadIdx.x; i < n; i += blockDim.x) all[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = all[n - 1 - i];
}

}  // namespace

absl::Status AddScaled(float a, const float* x, float* y, int64_t n, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  return Launch("add_scaled", AddScaledKernel, {blocks, kThreads}, stream, a, x, y, n);
}

absl::Status BlockSums(const float* x, float* sums, int blocks, cudaStream_t stream) {
  return Launch("block_sums", BlockSumsKernel, {static_cast<unsigned>(blocks), kThreads}, stream, x,
                sums);
}

absl::Status WarpSums(const float* x, float* sums, int blocks, cudaStream_t stream) {
  return Launch("warp_sums", WarpSumsKernel<float>, {static_cast<unsigned>(blocks), kThreads},
                stream, x, sums);
}

absl::Status Transpose(const float* x, float* y, int rows, int columns, cudaStream_t stream) {
  const dim3 grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  return Launch("transpose", TransposeKernel,
                {grid, dim3(kTile, 8), kTile * (kTile + 1) * sizeof(float)}, stream, x, y, rows,
                columns);
}

absl::Status VoteAndRotate(const float* x, float* y, unsigned* votes, int warps,
                           cudaStream_t stream) {
  return Launch("vote_and_rotate", VoteAndRotateKernel, {static_cast<unsigned>(warps), 32}, stream,
                x, y, votes);
}

absl::Status AllowReverse(int n) {
  return AllowShared("reverse", ReverseKernel, n * sizeof(float));
}

absl::Status Reverse(const float* x, float* y, int n, cudaStream_t stream) {
  return Launch("reverse", ReverseKernel, {1, kThreads, n * sizeof(float)}, stream, x, y, n);
}

absl::Status LaunchNothing(cudaStream_t stream) {
  return Launch("nothing", AddScaledKernel, {0, kThreads}, stream, 0, nullptr, nullptr, 0);
}

}  // namespace oneflow::cuda
