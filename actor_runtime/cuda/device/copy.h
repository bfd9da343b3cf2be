// copy_in and copy_out: copy a register of pinned memory to one in a GPU's memory, and back.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow::cuda {

bool IsCopy(const KernelSetup& setup);
// Requires IsCopy.
absl::StatusOr<Kernel> MakeCopy(const KernelSetup& setup);

}  // namespace oneflow::cuda
