// What the watchdog of a process notices, on its way to process 0's JobWatch.
#pragma once

#include "tools/oneflow/job_watch.h"
#include "tools/oneflow/processes/processes.h"
#include "tools/oneflow/watchdog.h"

namespace oneflow {

// Options of a watchdog that tells them, with --stall_seconds. `processes`: that train together;
// null: this one alone. `watch`: process 0's; others' hears nothing. Both outlive the watchdog.
WatchdogOptions WatchFor(Processes* processes, JobWatch* watch, bool on_gpus);

}  // namespace oneflow
