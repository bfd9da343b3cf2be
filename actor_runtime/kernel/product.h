// A kernel that is one matrix product of its two first inputs. Internal to kernel/.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/product_spec.h"

namespace oneflow {

// Types are those that gemm.h multiplies, a bias is of the type of sums, and `then` is done to
// every piece of the result as soon as it is there, in the bits of the kernel of that name on the
// whole.
absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const ProductSpec& product);

}  // namespace oneflow
