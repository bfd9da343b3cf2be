// A kernel that is one matrix product of its two first inputs. Internal to kernel/.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"
#include "actor_runtime/kernel/product_spec.h"

namespace oneflow {

// Types are those that gemm.h multiplies, and a bias has the type of sums. `then` is applied to
// every piece of the result as soon as it is computed, with the bits of the kernel of that name on
// the full result.
absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup, const ProductSpec& product);

}  // namespace oneflow
