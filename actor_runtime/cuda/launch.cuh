// cuda::Launch: launches all kernels, on a GPU as on the emulated one of the tests.
//
//   __global__ void Scale(float a, float* x, int64_t n);
//   RETURN_IF_ERROR(cuda::Launch("scale", Scale, {.grid = blocks, .block = 256}, stream, a, x, n));
//
// A kernel runs on both if
//   - shared memory is __shared__ arrays or DynamicShared<T>(),
//   - warp functions have full masks and are called by all lanes of a warp, and __syncthreads() by
//     all threads of a block,
//   - its blocks consist of full warps,
//   - it has no inline PTX and no atomic floating-point sums,
//   - AllowShared was called where its launches take more than 48 KiB of dynamic shared memory.
// No other file uses <<<>>> or cudaLaunchKernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>

#include "absl/status/status.h"
#include "actor_runtime/cuda/status.h"

#ifdef ONEFLOW_EMULATED_GPU
#include "actor_runtime/cuda/emulated/launch.h"
#endif

namespace oneflow::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;               // full warps, at most 1024 threads
  size_t shared_bytes = 0;  // of DynamicShared, besides the __shared__ arrays
};

// Dynamic shared memory of the running block, shape.shared_bytes of it, 128-byte aligned. Every
// call returns the same memory: a kernel that needs several arrays splits it.
template <typename T>
__device__ T* DynamicShared() {
#ifdef ONEFLOW_EMULATED_GPU
  return static_cast<T*>(emulated::DynamicSharedMemory());
#else
  extern __shared__ __align__(128) unsigned char oneflow_dynamic_shared[];
  return reinterpret_cast<T*>(oneflow_dynamic_shared);
#endif
}

// Allows launches of a kernel on the current device with so much dynamic shared memory; more than
// 48 KiB must be allowed. Called where the kernel is made, so that a launch asks for nothing.
template <typename... P>
absl::Status AllowShared(const char* name, void (*kernel)(P...), size_t bytes) {
  constexpr size_t kWithoutAsking = 48 << 10;
  if (bytes <= kWithoutAsking) return absl::OkStatus();
  const void* function = reinterpret_cast<const void*>(kernel);
#ifdef ONEFLOW_EMULATED_GPU
  return ToStatus(emulated::AllowShared(function, bytes), name);
#else
  return ToStatus(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(bytes)),
                  name);
#endif
}

// Appends kernel(arguments...) to `stream` of the current device and returns. Arguments are copied.
// An error is of this launch, or of earlier work that was found to have failed: the device then
// answers every later call with it. Errors while the kernel runs are reported by later calls.
template <typename... P, typename... A>
absl::Status Launch(const char* name, void (*kernel)(P...), const LaunchShape& shape,
                    cudaStream_t stream, A... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
  std::tuple<P...> values(static_cast<P>(arguments)...);
#ifdef ONEFLOW_EMULATED_GPU
  const cudaError_t error = emulated::Launch(
      name, {shape.grid, shape.block, shape.shared_bytes, reinterpret_cast<const void*>(kernel)},
      stream, [kernel, values] { std::apply(kernel, values); });
#else
  const auto launch = [&](P&... value) {
    void* addresses[] = {static_cast<void*>(&value)..., nullptr};
    const void* function = reinterpret_cast<const void*>(kernel);
    return cudaLaunchKernel(function, shape.grid, shape.block, addresses, shape.shared_bytes,
                            stream);
  };
  const cudaError_t error = std::apply(launch, values);
#endif
  if (error == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());  // It would else be found by an unrelated call.
  return ToStatus(error, name);
}

}  // namespace oneflow::cuda
