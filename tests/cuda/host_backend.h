// For tests: the emulated GPU with the CPU's kernels as the work of its streams. It tests
// everything but the kernels: streams, events, exchanges, memory.
#pragma once

#include "actor_runtime/exec/device_backend.h"

namespace oneflow {

// Ranks share `gpus` GPUs in turn. `make_kernel`: makes the CPU's kernels.
DeviceBackend HostBackend(int gpus, const KernelFactory& make_kernel = MakeKernel);

}  // namespace oneflow
