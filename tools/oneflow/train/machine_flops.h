// The rate of matrix products of the machine, which MFU is relative to.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "training/trainer/processes/process_group.h"

namespace oneflow {

// Kernel threads that would run at once.
int KernelThreads(const Runtime& runtime);

// FLOP/s on the cores that the run may use, for the types that it multiplies, of all processes of
// the group together: measured at one time, for they may share cores. Takes some tenths of a
// second.
absl::StatusOr<double> MachineFlops(const Runtime& runtime, ProcessGroup& group);

}  // namespace oneflow
