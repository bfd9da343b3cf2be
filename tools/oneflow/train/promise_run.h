// The promise of one run of `oneflow train`: on which cluster, and what the run took.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "planning/measure/plan_times.h"
#include "tools/oneflow/cli/verb.h"
#include "training/trainer/promise.h"
#include "training/trainer/training.h"

namespace oneflow {

// On --cluster. Without it: for GPUs on the cluster that the plan was compiled for, and nothing
// where that says nothing of their rates; else on this machine, whose times of the plan's kernels
// (`setups`) are measured, in some tenths of a second. `machine_flops`: matrix rate of the machine
// for all `processes` of the run. `predicts`: the steps are wanted, too. Fails where --cluster is
// invalid; other failures are reported on stderr, and nothing is promised.
absl::StatusOr<std::optional<Promise>> PromiseOfRun(const Arguments& args, const Runtime& runtime,
                                                    const KernelSetups& setups, int processes,
                                                    double machine_flops, bool predicts);

// Has the runtime trace the first steps, so that the time of the run can be divided into its
// causes. On CPUs only: it would slow down asynchronous devices.
void WatchFirstSteps(const proto::Plan& plan, TrainerOptions* options);

// The measurements of process 0. Between runs.
Took TookOfRun(const Runtime& runtime, const StepTimes& times);

}  // namespace oneflow
