// The training loop: programs of one plan, run one after the other at step boundaries; the next one
// is a function of the step number alone. A part of Trainer.
//
// It is not a scheduler: a program needs none.
#pragma once

#include "absl/status/status.h"
#include "training/trainer/metrics_log.h"
#include "training/trainer/training.h"

namespace oneflow {

// Trains from step 0, or, if it `goes_on`, from the newest checkpoint of run.checkpoint_dir
// that verifies, to run.steps. Returns CANCELLED where the group stopped early, with a
// checkpoint. All processes of the group call it; the log is process 0's, and null elsewhere.
absl::Status TrainLoop(const Training& training, MetricsLog* log, bool goes_on);

}  // namespace oneflow
