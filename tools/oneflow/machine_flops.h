// The rate of matrix products that a run is measured against, and whether it has the cores for
// them.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "tools/oneflow/processes/processes.h"

namespace oneflow {

void WarnOfCores(const Runtime& runtime);

// Products of matrices a second, of the plan's types, on the cores that all processes may use:
// measured now, in all of them at one time, for they may share cores. `processes`: null, this one
// alone.
absl::StatusOr<double> MachineFlops(const Runtime& runtime, Processes* processes);

}  // namespace oneflow
