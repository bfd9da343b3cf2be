#include "tools/oneflow/train/prepare_training.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/train/learning_rate.h"
#include "tools/oneflow/cli/check_decay.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "training/checkpoint/checkpoint.h"
#include "training/trainer/plan_facts.h"
#include "training/trainer/resume.h"
#include "training/trainer/training.h"

namespace oneflow {
namespace {

// A new run moves the checkpoints of its folder aside: not those that it begins with.
absl::Status CheckKeepsSource(const proto::Run& run) {
  std::error_code error;
  if (run.init_from().empty() || run.checkpoint_dir().empty()) return absl::OkStatus();
  const auto source = std::filesystem::canonical(run.init_from(), error).parent_path();
  if (error || !std::filesystem::equivalent(source, run.checkpoint_dir(), error) || error) {
    return absl::OkStatus();
  }
  return InputError("--checkpoint_dir=" + run.checkpoint_dir(),
                    "holds the checkpoint of --init_from, and a new run moves those in its folder "
                    "aside",
                    "give another folder, or go on with that run by --resume");
}

}  // namespace

absl::StatusOr<PreparedTraining> PrepareTraining(proto::Run run, proto::Plan plan) {
  RETURN_IF_ERROR(CheckExact(plan.graph(), "training"));
  ASSIGN_OR_RETURN(ModelFacts model, FactsOfModel(plan));
  if (run.has_init_from()) {
    ASSIGN_OR_RETURN(*run.mutable_init_from(),
                     FindStepFolder("--init_from", run.init_from(), PrintNotice));
    ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(run.init_from()));
    // Ids behind the vocabulary are padding: data must not have them.
    if (reader->notes().vocab > 0) model.vocab = std::min(model.vocab, reader->notes().vocab);
  }
  const std::string resumed = CheckpointOfResume(run);
  if (resumed.empty()) RETURN_IF_ERROR(CheckKeepsSource(run));
  ASSIGN_OR_RETURN(TrainingData data,
                   OpenTrainingData(run, model,
                                    {.checkpoint = resumed.empty() ? run.init_from() : resumed,
                                     .documents = plan.recipe().documents()}));
  if (run.has_init_from()) {
    ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(run.init_from()));
    // That it is not checked is said when the run begins.
    RETURN_IF_ERROR(
        CheckTokenizer(run.init_from(), reader->tokenizer(), "--data", data.tokenizer, {}));
  }
  const proto::Optimizer given = run.optimizer();
  run = CompleteRun(plan, std::move(run));
  RETURN_IF_ERROR(CheckOptimizer(run.optimizer(), "--"));
  RETURN_IF_ERROR(CheckDecay(given, run.optimizer()));
  RETURN_IF_ERROR(CheckClip(run.optimizer(), plan.recipe().global_norm()));
  return PreparedTraining{std::move(plan), std::move(data), std::move(run)};
}

}  // namespace oneflow
