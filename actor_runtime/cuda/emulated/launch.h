// The parts of kernels and launches on the emulated GPU. Included by actor_runtime/cuda/launch.cuh;
// tests control the emulated GPU by emulated_gpu.h.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>

namespace oneflow::emulated {

struct Grid {
  dim3 blocks;
  dim3 block;
  size_t shared_bytes = 0;
  const void* function = nullptr;  // the kernel; null: any shared memory is allowed
};

// cudaFuncSetAttribute: launches of a kernel on the current device may take so much dynamic shared
// memory; without it 48 KiB.
cudaError_t AllowShared(const void* function, size_t bytes);

// Appends a kernel to a stream of the current device: `thread` is called once for each thread of
// the grid.
cudaError_t Launch(const char* name, const Grid& grid, cudaStream_t stream,
                   std::function<void()> thread);

// Dynamic shared memory of the running block: NaNs at first.
void* DynamicSharedMemory();

}  // namespace oneflow::emulated
