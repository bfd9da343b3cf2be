// The kernels of all kinds that are one matrix product of their first two inputs (OpDef::product).
// Internal to kernel/.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

// Types are those that gemm.h multiplies, and a bias has the type of sums. `then` is applied to
// every piece of the result as soon as it is computed, with the bits of the kernel of that name on
// the full result.
absl::StatusOr<Kernel> MakeProduct(const KernelSetup& setup);

}  // namespace oneflow
