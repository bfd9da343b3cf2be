// MakeProduct: a kernel that is one matrix product, or a batch of them, by cuBLASLt. Internal to
// cuda/kernel.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/product_spec.h"

namespace oneflow::cuda {

// Products of f32 give f32; products of bf16 give bf16 or f32. A call may accumulate, except into
// bf16 results and results with a further operation.
//
// Operations on a product (ProductSpec::Then, and its bias) are an epilogue of cuBLASLt if it has
// one for these types and shapes. Else a separate kernel does them:
//   * on the result, in place;
//   * if a bf16 result has a bias, on panels of rows in f32, in the workspace: a bias added to a
//     rounded result would be rounded twice.
absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const BatchedProduct& product,
                                   const Libraries& libraries);

}  // namespace oneflow::cuda
