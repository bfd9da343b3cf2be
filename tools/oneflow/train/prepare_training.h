// Prepares `oneflow train`: its plan and data, according to the flags.
#pragma once

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/train/training_data.h"
#include "training/trainer/training.h"

namespace oneflow {

struct PreparedTraining {
  proto::Plan plan;
  TrainingData data;
  TrainerOptions options;  // but for those of the process: attempt, backend
};

// Opens the data: --eval_data, or the last --eval_fraction of --data, is what is validated on.
// Input errors where flags, plan and data do not go together.
absl::StatusOr<PreparedTraining> PrepareTraining(const Arguments& args, proto::Plan plan);

}  // namespace oneflow
