// The file of `train --trace`: one for any number of processes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "actor_runtime/exec/runtime.h"
#include "planning/simulate/simulate.h"
#include "training/trainer/notice.h"
#include "training/trainer/processes/process_group.h"

namespace oneflow {

// Checks now, not after hours, that the trace can be written there. A file that is there stays.
absl::Status CheckTrace(const std::string& path);

// Writes what the runtime has traced. All processes of the group call it where `together`, with the
// same path, and process 0 writes what all have traced; else process 0 writes its own part, because
// the others cannot be reached. `predicted`: steps of
// program train that are written beside the measured ones, from the begin of the second measured
// step on, for the first warms up; null: none.
absl::Status WriteTrace(const std::string& path, const Runtime& runtime, ProcessGroup& group,
                        bool together, const SimulatedRun* predicted, const Notice& notice);

}  // namespace oneflow
