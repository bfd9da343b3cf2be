// Helpers of our kernels' factories, on the host: dispatch by dtype and by width, grids, the stream
// of a call. Internal to cuda/kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/cuda/launch.cuh"
#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/support.h"
#include "glog/logging.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow::cuda {

inline constexpr int kThreads = 256;  // of an element-wise block

inline cudaStream_t FindStream(const KernelCall& call) {
  return static_cast<cudaStream_t>(call.stream);
}

// A one-dimensional grid of `blocks`, at least one.
inline dim3 MakeGrid(int64_t blocks) {
  CHECK_GT(blocks, 0);
  CHECK_LE(blocks, std::numeric_limits<int>::max());
  return dim3(static_cast<unsigned>(blocks));
}

inline int64_t DivideUp(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Threads, `each` elements at a time, for n elements.
inline LaunchShape ElementsShape(int64_t n, int64_t each = 1) {
  return {MakeGrid(DivideUp(n, kThreads * each)), dim3(kThreads)};
}

// A warp each of `warps`.
inline LaunchShape WarpsShape(int64_t warps) {
  constexpr int kLanes = 32;
  return ElementsShape(warps * kLanes);
}

// A block a row of `width`.
inline LaunchShape RowsShape(int64_t rows, int64_t width) {
  const unsigned threads = width <= 256 ? 32 : width <= 1024 ? 128 : width <= 8192 ? 256 : 512;
  return {MakeGrid(rows), dim3(threads)};
}

// make(S()) with S = float or Bf16 as `dtype` says; UNIMPLEMENTED for others.
template <typename Make>
absl::StatusOr<Kernel> ForStoredAs(const KernelSetup& s, DType dtype, Make make) {
  if (dtype == DType::kF32) return make(float());
  if (dtype == DType::kBF16) return make(Bf16());
  return absl::UnimplementedError(s.name + ": no CUDA kernel \"" + s.kind + "\" for dtype " +
                                  std::string(Name(dtype)));
}

// make(A(), B()) for two tensors, stored as `a` and `b` say.
template <typename Make>
absl::StatusOr<Kernel> ForStoredAs(const KernelSetup& s, DType a, DType b, Make make) {
  return ForStoredAs(s, a, [&](auto of_a) {
    return ForStoredAs(s, b, [&](auto of_b) { return make(of_a, of_b); });
  });
}

// UNIMPLEMENTED unless `dtype` is f32.
inline absl::Status NeedF32(const KernelSetup& s, DType dtype) {
  if (dtype == DType::kF32) return absl::OkStatus();
  return absl::UnimplementedError(s.name + ": no CUDA kernel \"" + s.kind + "\" for dtype " +
                                  std::string(Name(dtype)));
}

template <int kSize>
using Size = std::integral_constant<int, kSize>;

// fn(Size<kSize>()) with packs of kSize elements if `width` is a multiple of it, else of 1.
template <int kSize, typename Fn>
auto ForPacks(int64_t width, Fn fn) {
  return width % kSize == 0 ? fn(Size<kSize>()) : fn(Size<1>());
}

// The memory of many inputs, as a kernel's argument.
template <typename S>
struct Sources {
  static constexpr int kMost = 128;
  const S* at[kMost];
  int count;
};

}  // namespace oneflow::cuda
