#include "tools/oneflow/train/prepare_training.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/recipe/check_needs.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/train/learning_rate.h"
#include "tools/oneflow/cli/check_decay.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "training/checkpoint/base.h"
#include "training/checkpoint/checkpoint.h"
#include "training/trainer/plan_facts.h"
#include "training/trainer/resume.h"
#include "training/trainer/training.h"

namespace oneflow {
namespace {

// A new run moves the checkpoints of its folder aside: not those that it begins with.
absl::Status CheckKeepsSource(const proto::Run& run, const std::string& begins_with) {
  std::error_code error;
  if (begins_with.empty() || run.checkpoint_dir().empty() || IsModelFolder(begins_with)) {
    return absl::OkStatus();
  }
  const auto source = std::filesystem::canonical(begins_with, error).parent_path();
  if (error || !std::filesystem::equivalent(source, run.checkpoint_dir(), error) || error) {
    return absl::OkStatus();
  }
  return InputError("--checkpoint_dir=" + run.checkpoint_dir(),
                    absl::StrCat("holds the checkpoint of ",
                                 run.init_from().empty() ? "the graph's base" : "--init_from",
                                 ", and a new run moves those in its folder aside"),
                    "give another folder, or go on with that run by --resume");
}

// The steps that read --epochs of the records; those that share an update are full.
absl::Status SetStepsOfEpochs(const proto::Plan& plan, const TrainingData& data, proto::Run* run) {
  if (!run->has_epochs()) return absl::OkStatus();
  const int64_t batch = SamplesOfStep(plan), round = StepsARound(plan);
  const int64_t records = data.train_samples.counts().records;
  const auto samples = static_cast<unsigned __int128>(run->epochs()) * records;
  const auto a_round = static_cast<unsigned __int128>(batch) * round;
  const unsigned __int128 steps = (samples + a_round - 1) / a_round * round;
  const std::string epochs = absl::StrCat("--epochs=", run->epochs());
  if (steps >= TokenSource::kMost) {
    return InputError(epochs, absl::StrCat("of ", records, " records are 2^32 steps or more"),
                      "use fewer epochs or a larger batch");
  }
  if (run->has_steps() && run->steps() != static_cast<int64_t>(steps)) {
    return InputError(absl::StrCat("--steps=", run->steps()),
                      absl::StrCat("is not ", epochs, ", which are ", static_cast<int64_t>(steps),
                                   " steps: ", records, " records in batches of ", batch),
                      "leave --steps or --epochs out");
  }
  run->set_steps(static_cast<int64_t>(steps));
  return absl::OkStatus();
}

// A validation of chats reads each once, unless --eval_batches says otherwise.
void SetPassOfValidation(const proto::Plan& plan, const TrainingData& data, proto::Run* run) {
  const proto::Program* eval = FindProgram(plan, "eval");
  const int64_t records = RecordsOfPass(data);
  if (eval == nullptr || records == 0) return;
  const int64_t all = (records + eval->micro_batch_size() - 1) / eval->micro_batch_size();
  run->set_eval_batches(run->has_eval_batches() ? std::min(run->eval_batches(), all) : all);
}

}  // namespace

absl::StatusOr<proto::Run> RunToPrepare(const Arguments& args) {
  ASSIGN_OR_RETURN(proto::Run run, RunFromFlags(args));
  RETURN_IF_ERROR(CheckNeeds(RunRows(), run));
  const proto::Run said = run;
  SetDefaults(RunRows(), &run);  // the optimizer's are the plan's
  // The data decide on them.
  if (run.has_epochs() && !said.has_steps()) run.clear_steps();
  if (!said.has_eval_batches()) run.clear_eval_batches();
  return run;
}

int64_t SamplesOfStep(const proto::Plan& plan) {
  const proto::Program* train = FindProgram(plan, "train");
  // The trainer refuses a plan without it.
  return train == nullptr ? 1 : train->micro_batches() * train->micro_batch_size();
}

absl::StatusOr<PreparedTraining> PrepareTraining(proto::Run run, proto::Plan plan) {
  RETURN_IF_ERROR(CheckExact(plan.graph(), "training"));
  ASSIGN_OR_RETURN(ModelFacts model, FactsOfModel(plan));
  if (run.has_init_from()) {
    ASSIGN_OR_RETURN(*run.mutable_init_from(),
                     FindWeightsFolder("--init_from", run.init_from(), PrintNotice));
  }
  const std::string resumed = CheckpointOfResume(run);
  // The folder with whose weights a new run begins.
  std::string begins_with = run.init_from();
  if (begins_with.empty() && resumed.empty() && plan.graph().has_base()) {
    begins_with = run.base().empty() ? plan.graph().base().path() : run.base();
  }
  if (begins_with.empty() && resumed.empty() && HoldsModelWeights(FLAGS_graph)) {
    PrintNotice("warning: the weights of " + FLAGS_graph +
                " are not read, since training begins anew; --init_from=" + FLAGS_graph +
                " begins with them");
  }
  std::unique_ptr<WeightSource> weights;
  if (!begins_with.empty()) {
    if (run.init_from().empty()) {
      // It says if that folder is not there; the hash is verified when the run begins.
      ASSIGN_OR_RETURN(weights, OpenBase(plan.graph().base(), run.base(), /*verifies=*/false));
    } else {
      ASSIGN_OR_RETURN(weights, OpenWeights(begins_with, run.base()));
    }
    begins_with = weights->folder();
    // Ids behind the vocabulary are padding: data must not have them.
    if (weights->notes().vocab > 0) model.vocab = std::min(model.vocab, weights->notes().vocab);
  }
  if (resumed.empty()) RETURN_IF_ERROR(CheckKeepsSource(run, begins_with));
  ASSIGN_OR_RETURN(TrainingData data,
                   OpenTrainingData(run, model,
                                    {.checkpoint = resumed.empty() ? begins_with : resumed,
                                     .documents = plan.recipe().documents()}));
  if (weights != nullptr) {
    // That it is not checked is said when the run begins.
    RETURN_IF_ERROR(
        CheckTokenizer(begins_with, weights->tokenizer(), "--data", data.tokenizer, {}));
  }
  RETURN_IF_ERROR(CheckCountsLabels(plan, data));
  RETURN_IF_ERROR(SetStepsOfEpochs(plan, data, &run));
  SetPassOfValidation(plan, data, &run);
  const proto::Optimizer given = run.optimizer();
  run = CompleteRun(plan, std::move(run));
  RETURN_IF_ERROR(CheckOptimizer(run.optimizer(), "--"));
  RETURN_IF_ERROR(CheckDecay(given, run.optimizer()));
  RETURN_IF_ERROR(CheckClip(run.optimizer(), plan.recipe().global_norm()));
  return PreparedTraining{std::move(plan), std::move(data), std::move(run)};
}

}  // namespace oneflow
