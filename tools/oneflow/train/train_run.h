// Runs a prepared training, and prints what people want to know of it: its devices and its promise
// before the first step, the steps, and afterwards what it took.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/serve/http/http_server.h"
#include "tools/oneflow/train/prepare_training.h"
#include "training/job/placement.h"
#include "training/trainer/job_report.h"
#include "training/trainer/job_watch.h"
#include "training/trainer/processes/process_group.h"

namespace oneflow {

// `placement`: of this process. `report` and `watch` are process 0's view of all. `server`: shows
// the run while it goes on; null: nobody asked for it, or this is not process 0.
absl::Status RunTraining(const Arguments& args, const PreparedTraining& prepared,
                         const JobPlacement& placement, ProcessGroup& group, JobReport& report,
                         JobWatch& watch, ProgressPrinter& printer,
                         std::unique_ptr<HttpServer> server);

}  // namespace oneflow
