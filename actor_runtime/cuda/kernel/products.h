// The factories of kernels that are matrix products, one for each kind of docs/ops.md;
// make_kernel's table names them all. Each returns a Kernel for the ports of `setup`, whose call
// launches on the stream of a GPU and returns. cuBLASLt computes the products; its epilogues do the
// operations on their results, or, if it has none, a separate kernel after it.
//
// f32 is multiplied as f32, never as TF32; bf16 is multiplied exactly and summed in f32.
// UNIMPLEMENTED for a dtype that it does not support and INTERNAL if the plan gives less workspace
// than the kernel needs. Algorithms are chosen here, at load, on the current device; a call
// allocates nothing. A kernel is for one call at a time.
//
// Requires that all memory given to a call begins at multiples of 64 bytes.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/cuda/library/libraries.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow::cuda {

// linear.cc
absl::StatusOr<Kernel> MakeLinear(const KernelSetup& setup, const Libraries& libraries);
absl::StatusOr<Kernel> MakeLinearAdd(const KernelSetup& setup, const Libraries& libraries);
absl::StatusOr<Kernel> MakeLinearGelu(const KernelSetup& setup, const Libraries& libraries);
absl::StatusOr<Kernel> MakeLinearGradInput(const KernelSetup& setup, const Libraries& libraries);
absl::StatusOr<Kernel> MakeLinearGeluGradInput(const KernelSetup& setup,
                                               const Libraries& libraries);
absl::StatusOr<Kernel> MakeLinearGradWeight(const KernelSetup& setup, const Libraries& libraries);

// linear_grad_bias.cu: no product, but of the family
absl::StatusOr<Kernel> MakeLinearGradBias(const KernelSetup& setup);

// matmul.cc
absl::StatusOr<Kernel> MakeMatmul(const KernelSetup& setup, const Libraries& libraries);
absl::StatusOr<Kernel> MakeMatmulGradB(const KernelSetup& setup, const Libraries& libraries);

// batch_matmul.cc
absl::StatusOr<Kernel> MakeBatchMatmul(const KernelSetup& setup, const Libraries& libraries);

}  // namespace oneflow::cuda
