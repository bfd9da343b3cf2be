// Device code that our kernels share: elements as what is computed in, packs of elements that are
// one access of memory, and reductions in an order that the shape fixes.
//
//   const Floats<4> x = LoadPack<4>(row + c);        // widened
//   const float sum = BlockSum(partial, scratch, Scratch::kFree);    // the same bits in every
//   thread
//
// It is for code that every thread of a warp, or of a block, reaches together.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "oneflow_core/tensor/bf16.h"

namespace oneflow::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kMostThreads = 1024;  // of a block

// An element of a tensor that may be stored narrow, as what is computed in; and back, rounded.
template <typename T>
__device__ inline T Wide(T x) {
  return x;
}
__device__ inline float Wide(Bf16 x) { return ToFloat(x); }

template <typename S, typename T>
__device__ inline S Narrow(T x) {
  if constexpr (std::is_same_v<S, Bf16>) return ToBf16(x);
  return static_cast<S>(x);
}

// The value to write if `old` may be added: rounded once.
template <typename S, typename T>
__device__ inline void Put(S* to, T value, bool accumulate) {
  *to = Narrow<S>(accumulate ? static_cast<T>(Wide(*to) + value) : value);
}

// kSize elements at an address that is a multiple of their bytes, at most 16: one access.
template <typename S, int kSize>
struct alignas(sizeof(S) * kSize) Pack {
  S at[kSize];
};

template <int kSize>
struct Floats {
  float at[kSize];
};

template <int kSize, typename S>
__device__ inline Floats<kSize> LoadPack(const S* p) {
  const Pack<S, kSize> pack = *reinterpret_cast<const Pack<S, kSize>*>(p);
  Floats<kSize> v;
#pragma unroll
  for (int i = 0; i < kSize; ++i) v.at[i] = Wide(pack.at[i]);
  return v;
}

template <int kSize, typename S>
__device__ inline void StorePack(S* p, const Floats<kSize>& v) {
  Pack<S, kSize> pack;
#pragma unroll
  for (int i = 0; i < kSize; ++i) pack.at[i] = Narrow<S>(v.at[i]);
  *reinterpret_cast<Pack<S, kSize>*>(p) = pack;
}

template <int kSize, typename S>
__device__ inline void PutPack(S* p, Floats<kSize> v, bool accumulate) {
  if (accumulate) {
    const Floats<kSize> old = LoadPack<kSize>(p);
#pragma unroll
    for (int i = 0; i < kSize; ++i) v.at[i] += old.at[i];
  }
  StorePack<kSize>(p, v);
}

// Elements of a pack of the widest of these types.
template <typename... S>
constexpr int PackSize() {
  size_t widest = 1;
  ((widest = widest < sizeof(S) ? sizeof(S) : widest), ...);
  return static_cast<int>(16 / widest);
}

__device__ inline int64_t GlobalThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t GlobalWarp() { return GlobalThread() / kWarp; }
__device__ inline int LaneIndex() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int WarpIndex() { return static_cast<int>(threadIdx.x) / kWarp; }

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// The result over `lanes` neighbours, a power of two; each of them gets it.
template <typename T, typename Join>
__device__ inline T WarpReduce(T v, Join join, int lanes = kWarp) {
  for (int step = lanes / 2; step > 0; step /= 2) {
    v = join(v, __shfl_xor_sync(kAllLanes, v, step));
  }
  return v;
}

// kFree if a call may write its scratch at once: no call has used it before, or a __syncthreads has
// come since. kUsed if threads may still read the results of the last call there.
enum class Scratch { kFree, kUsed };

// The result over all threads of a one-dimensional block; each of them gets it. `scratch`: in
// shared memory, one element a warp; calls may use one scratch after the other. In a block of
// several warps, writes to shared memory before the call are visible to all threads after it.
template <typename T, typename Join>
__device__ inline T BlockReduce(T v, Join join, T* scratch, Scratch before) {
  v = WarpReduce(v, join);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return v;
  if (before == Scratch::kUsed) __syncthreads();  // The last call's readers are done.
  if (LaneIndex() == 0) scratch[WarpIndex()] = v;
  __syncthreads();
  v = scratch[0];
  for (int w = 1; w < warps; ++w) v = join(v, scratch[w]);
  return v;
}

template <typename T>
__device__ inline T BlockSum(T v, T* scratch, Scratch before) {
  return BlockReduce(v, Plus(), scratch, before);
}
__device__ inline float BlockMax(float v, float* scratch, Scratch before) {
  return BlockReduce(v, Larger(), scratch, before);
}

// Rows of a box in a tensor, by their numbers: offsets of their first elements in two memories.
struct RowStrides {
  static constexpr int kMost = 8;
  int dims = 0;  // outer ones, slowest first
  int64_t count[kMost], from[kMost], to[kMost];
};

struct RowOffsets {
  int64_t from, to;
};
__device__ inline RowOffsets FindOffsets(const RowStrides& rows, int64_t row) {
  RowOffsets offsets{0, 0};
  for (int i = rows.dims - 1; i >= 0; --i) {
    const int64_t index = row % rows.count[i];
    row /= rows.count[i];
    offsets.from += index * rows.from[i];
    offsets.to += index * rows.to[i];
  }
  return offsets;
}

}  // namespace oneflow::cuda
