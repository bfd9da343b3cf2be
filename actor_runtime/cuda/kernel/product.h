// A kernel that is one matrix product, or a batch of them, by cuBLASLt. Internal to cuda/kernel.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/product_spec.h"

namespace oneflow::cuda {

// Of f32 to f32, or of bf16 to bf16 or f32. Results are added to what is there if the call says so:
// not those that are bf16, nor those that something is done to.
//
// What is done to a product (ProductSpec::Then, and its bias) is an epilogue of cuBLASLt where it
// has one for these types and shapes. Else a kernel of ours does it:
//   * to the result, in place;
//   * where a bf16 result has a bias, to panels of rows that are f32, in the workspace: what is
//     added to a result that was rounded before would be rounded twice.
absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const BatchedProduct& product,
                                   const Libraries& libraries);

}  // namespace oneflow::cuda
