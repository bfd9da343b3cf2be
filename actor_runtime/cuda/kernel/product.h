// MakeProduct: the kernels of all kinds that are one matrix product, or a batch of them
// (OpDef::product), by cuBLASLt. Internal to cuda/kernel.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow::cuda {

// f32 is multiplied as f32, never as TF32; bf16 is multiplied exactly and summed in f32.
// UNIMPLEMENTED for a dtype that it does not support and INTERNAL if the plan gives less workspace
// than the kernel needs. Algorithms are chosen here, at load, on the current device; a call
// allocates nothing. A kernel is for one call at a time. Requires that all memory given to a call
// begins at multiples of 64 bytes.
//
// Products of f32 give f32; products of bf16 give bf16 or f32. A call may accumulate, except into
// bf16 results and results with a further operation.
//
// Operations on a product (ProductSpec::Then, and its bias) are an epilogue of cuBLASLt if it has
// one for these types and shapes. Else a separate kernel does them:
//   * on the result, in place;
//   * if a bf16 result has a bias, on panels of rows in f32, in the workspace: a bias added to a
//     rounded result would be rounded twice.
absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const Libraries& libraries);

}  // namespace oneflow::cuda
