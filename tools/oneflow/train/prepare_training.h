// Prepares a training: its plan, its data and what the run leaves out.
#pragma once

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/train/training_data.h"

namespace oneflow {

// The run as the flags say it, with defaults but where plan or data decide.
absl::StatusOr<proto::Run> RunToPrepare(const Arguments& args);

struct PreparedTraining {
  proto::Plan plan;
  TrainingData data;
  proto::Run run;  // complete
};

// Samples of a step of the plan.
int64_t SamplesOfStep(const proto::Plan& plan);

// Opens the data: --eval_data, or the last --eval_fraction of --data, is what is validated on.
// With --epochs the run gets its steps; run.steps and run.eval_batches are there if the user says
// them. Input errors where run, plan and data do not go together.
absl::StatusOr<PreparedTraining> PrepareTraining(proto::Run run, proto::Plan plan);

}  // namespace oneflow
