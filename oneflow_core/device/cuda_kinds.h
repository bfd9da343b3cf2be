// Which kinds of kernels have a CUDA twin: what the compiler may place on a GPU. It needs no CUDA.
//
//   if (!HasCudaKernel(op.kind)) return InputError(op.name, "has no kernel for device kind cuda");
#pragma once

#include <span>
#include <string_view>

namespace oneflow {

// Sorted. The table of actor_runtime/cuda/kernel/make_kernel.h has the same kinds.
std::span<const std::string_view> CudaKinds();

bool HasCudaKernel(std::string_view kind);

}  // namespace oneflow
