// Runs a prepared training, and prints what people want to know of it: its devices and its promise
// before the first step, the steps, and afterwards what it took.
#pragma once

#include "absl/status/status.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/train/prepare_training.h"
#include "training/job/placement.h"
#include "training/trainer/job_report.h"
#include "training/trainer/job_watch.h"
#include "training/trainer/processes/process_group.h"

namespace oneflow {

// `placement`: of this process. `report` and `watch` are process 0's view of all.
absl::Status RunTraining(const Arguments& args, const PreparedTraining& prepared,
                         const JobPlacement& placement, ProcessGroup& group, JobReport& report,
                         JobWatch& watch, ProgressPrinter& printer);

}  // namespace oneflow
