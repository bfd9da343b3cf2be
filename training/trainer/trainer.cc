#include "training/trainer/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/simulate/model_rates.h"
#include "training/checkpoint/checkpoint.h"
#include "training/job/job.h"
#include "training/trainer/expert_load.h"
#include "training/trainer/job_watch.h"
#include "training/trainer/plan_facts.h"
#include "training/trainer/runtime_options.h"
#include "training/trainer/trace_file.h"
#include "training/trainer/train_loop.h"
#include "training/trainer/watchdog.h"

namespace oneflow {
namespace {

constexpr char kWeightsToBlame[] =
    ", before any update, so that no --learning_rate is to blame: look at the weights with which "
    "the run begins, which may be too large, and at the data";

// Before the folder of checkpoints is touched.
absl::Status CheckPrograms(const proto::Plan& plan, const proto::Run& run, bool validates) {
  for (const auto& [name, needed] : {std::pair("train", true), std::pair("eval", validates),
                                     std::pair("save", !run.checkpoint_dir().empty())}) {
    if (!needed || FindProgram(plan, name) != nullptr) continue;
    return InputError("plan of " + plan.model(),
                      absl::StrCat("has no program \"", name, "\", so it cannot be trained"),
                      "compile a graph that has a loss, by a recipe of purpose TRAINING");
  }
  return absl::OkStatus();
}

// A micro-batch of the forward alone takes a third of the time of one of a step.
double StepsOfValidation(const proto::Plan& plan, int64_t batches) {
  const auto micro_batches =
      static_cast<double>(std::max<int64_t>(1, plan.recipe().micro_batches()));
  return static_cast<double>(batches) / (3 * micro_batches);
}

}  // namespace

proto::Run CompleteRun(const proto::Plan& plan, proto::Run run) {
  proto::Optimizer optimizer = plan.optimizer();
  optimizer.MergeFrom(run.optimizer());
  *run.mutable_optimizer() = std::move(optimizer);
  SetDefaults(OptimizerRows(), run.mutable_optimizer());
  SetDefaults(RunRows(), &run);
  return run;
}

std::string WhyNoLabels(const std::string& data_name, int32_t end_of_text) {
  if (end_of_text < 0) return "all labels of " + data_name + " are masked; use other data";
  return absl::StrCat("all tokens read of ", data_name, " are ", end_of_text,
                      ", the end of a document; use data that has text, or name another token with "
                      "--end_of_text_id");
}

Trainer::Trainer(const proto::Plan& plan, TrainerData data, TrainerOptions options,
                 ProcessGroup* group, TrainerObserver observer)
    : plan_(plan),
      data_(std::move(data)),
      options_(std::move(options)),
      group_(*group),
      observer_(std::move(observer)) {
  options_.run = CompleteRun(plan, std::move(options_.run));
}

Trainer::~Trainer() {
  if (runtime_ != nullptr) group_.Attach(nullptr);
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const proto::Plan& plan, TrainerData data,
                                                         TrainerOptions options,
                                                         ProcessGroup* group,
                                                         TrainerObserver observer) {
  RETURN_IF_ERROR(CheckExact(plan.graph(), "training"));
  std::unique_ptr<Trainer> trainer(
      new Trainer(plan, std::move(data), std::move(options), group, std::move(observer)));
  RETURN_IF_ERROR(CheckPrograms(plan, trainer->options_.run, trainer->data_.validation != nullptr));
  RuntimeOptions& runtime = trainer->options_.runtime;
  RETURN_IF_ERROR(SetRuntimeOptions(trainer->options_.run, &runtime));
  runtime.trace = runtime.trace || !trainer->options_.run.trace().empty();
  runtime.notice = trainer->observer_.notice;
  ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(plan));
  RETURN_IF_ERROR(group->Divide(mesh.ranks()));
  group->Configure(&runtime);
  ASSIGN_OR_RETURN(trainer->runtime_, Runtime::Create(plan, runtime));
  group->Attach(trainer->runtime_.get());
  RETURN_IF_ERROR(trainer->TakeFolder());
  ASSIGN_OR_RETURN(trainer->goes_on_, trainer->GoesOn());
  return trainer;
}

// Process 0 takes it for all.
absl::Status Trainer::TakeFolder() {
  if (options_.run.checkpoint_dir().empty() || !group_.IsFirst() || !options_.locks_folder) {
    return absl::OkStatus();
  }
  // A folder to resume from is there already: a mistyped one is not made.
  if (options_.run.resume() == "true") {
    RETURN_IF_ERROR(LatestCheckpoint(options_.run.checkpoint_dir()).status());
  }
  ASSIGN_OR_RETURN(FolderLock lock,
                   FolderLock::Take(options_.run.checkpoint_dir(), observer_.notice));
  lock_.emplace(std::move(lock));
  return absl::OkStatus();
}

// Process 0 looks, for all.
absl::StatusOr<bool> Trainer::GoesOn() {
  ASSIGN_OR_RETURN(const std::string goes_on,
                   group_.Round("resume", "", [&](auto) -> absl::StatusOr<std::string> {
                     ASSIGN_OR_RETURN(
                         const bool does,
                         oneflow::GoesOn(options_.run.resume(), options_.run.checkpoint_dir(),
                                         observer_.notice));
                     return does ? "yes" : "no";
                   }));
  return goes_on == "yes";
}

void Trainer::AskStop() {
  if (group_.count() == 1 && options_.run.checkpoint_dir().empty()) return runtime_->Cancel();
  if (!stop_asked_.exchange(true)) group_.AskStop();  // all processes hear of each call
}

absl::Status Trainer::VisitVariables(
    const std::function<absl::Status(const Piece& piece)>& visit) {
  if (FindProgram(plan_, "save") == nullptr) {
    return InputError("plan of " + plan_.model(), "has no program \"save\"",
                      "compile a graph that has a loss, by a recipe of purpose TRAINING");
  }
  RunContext context;
  context.seed = options_.run.seed();
  context.save = visit;
  return group_.Run("save", std::move(context), 1, 0);
}

MetricsOptions Trainer::OptionsOfLog(const RunPrediction& prediction) {
  MetricsOptions log;
  log.path = options_.run.metrics();
  log.last_step = options_.run.steps();
  const absl::StatusOr<ModelFacts> model = FactsOfModel(plan_);
  if (model.ok()) {
    log.tokens_a_step =
        static_cast<double>(plan_.recipe().batch()) * static_cast<double>(model->sequence);
  }
  const absl::StatusOr<ModelRates> rates =
      FindModelRates(plan_, "train", proto::Cluster(), /*step_seconds=*/0);
  if (rates.ok()) log.flops_a_step = rates->model_flops;
  log.counts = CountsOfReport(plan_);
  log.machine_flops = prediction.machine_flops;
  log.promised_step_seconds = prediction.step_seconds;
  if (options_.runtime.backend != nullptr) {
    log.ranks = runtime_->ranks();
    log.worked = [this](std::chrono::steady_clock::time_point now, std::span<int64_t> nanoseconds) {
      runtime_->WorkedUntil(now, nanoseconds);
    };
  }
  log.on_step = observer_.on_step;
  log.on_evaluated = observer_.on_evaluated;
  log.pauses[kValidation] = {.is_made = data_.validation != nullptr,
                             .every = options_.run.eval_every(),
                             .steps = StepsOfValidation(plan_, options_.run.eval_batches())};
  log.pauses[kCheckpoint] = {.is_made = !options_.run.checkpoint_dir().empty(),
                             .every = options_.run.checkpoint_every()};
  log.why_no_labels = WhyNoLabels(data_.train_name, data_.end_of_text);
  log.notice = observer_.notice;
  log.may_write = [this] { return group_.AwaitMayWrite(); };
  return log;
}

absl::Status Trainer::RunWatched(MetricsLog* log, bool goes_on) {
  const Training training{plan_, data_, options_, options_.run, observer_, group_, *runtime_};
  std::optional<Watchdog> watchdog;
  if (options_.watches) {
    WatchdogOptions watch{.stall_seconds = options_.run.stall_seconds(),
                          .ends = options_.runtime.backend != nullptr,
                          .host = HostName(),
                          .notice = observer_.notice,
                          .wants_report = observer_.wants_report};
    // Process 0 hears of some hundred processes a second, at most.
    watch.waits_seconds = std::max(1.0, group_.count() / 100.0);
    watch.on_waits = [this](const proto::ProcessWaits& waits) {
      group_.Note(JobWatch::kWaits, waits.SerializeAsString());
    };
    watch.on_stall = [this](const proto::ProcessStall& stall) {
      group_.Note(JobWatch::kStall, stall.SerializeAsString());
    };
    watch.on_look = [this] {
      // Whoever was given up writes nothing.
      if (observer_.on_look && group_.IsFirst() && group_.MayWrite()) observer_.on_look();
    };
    watchdog.emplace(*runtime_, watch);
  }
  return TrainLoop(training, log, goes_on);
}

// It names the newest checkpoint.
absl::Status Trainer::Interrupted() const {
  const absl::StatusOr<std::string> latest = LatestCheckpoint(options_.run.checkpoint_dir());
  return absl::CancelledError(
      latest.ok() ? "interrupted; the latest checkpoint is " + *latest + "; go on with --resume"
      : options_.run.checkpoint_dir().empty()
          ? "interrupted; no checkpoint was written: give --checkpoint_dir=DIR"
          : "interrupted before the first step was done; no checkpoint was written");
}

// A step that no update came before blames its weights or data.
bool Trainer::BeganNotFinite(const MetricsLog::Losses& losses) {
  return losses.first_nonfinite && losses.first_nonfinite == losses.first_step;
}

// If updates do not wait for a norm, nothing can skip a step; if weights lag, updates cannot wait
// for it.
void Trainer::WarnOfSteps(const MetricsLog::Losses& losses) const {
  const bool skipped = plan_.recipe().global_norm();
  const char* what = skipped ? "were skipped, for their loss or gradient was not finite"
                             : "had a loss or gradient that was not finite and was applied";
  const char* hint = skipped ? options_.run.optimizer().clip() > 0 ? " or --clip" : " or --clip=1"
                     : StepsARound(plan_) > 1
                         ? ""
                         : ", or compile with --global_norm, which skips such steps";
  Notify(observer_.notice, absl::StrCat("warning: ", losses.nonfinite, " steps ", what,
                                        "; the first is step ", *losses.first_nonfinite + 1,
                                        BeganNotFinite(losses)
                                            ? kWeightsToBlame
                                            : absl::StrCat("; try a lower --learning_rate", hint)));
}

absl::Status Trainer::Run(const RunPrediction& prediction) {
  std::optional<bool> goes_on = std::exchange(goes_on_, std::nullopt);
  if (!goes_on) {
    ASSIGN_OR_RETURN(goes_on, GoesOn());
  }
  const bool traces = !options_.run.trace().empty();
  if (traces && group_.IsFirst()) RETURN_IF_ERROR(CheckTrace(options_.run.trace()));
  std::optional<MetricsLog> log;
  if (group_.IsFirst()) log.emplace(OptionsOfLog(prediction));
  absl::Status trained = RunWatched(log ? &*log : nullptr, *goes_on);
  if (observer_.on_trained) observer_.on_trained();
  // An interruption that all have agreed upon is a good end. A run that was refused leaves the
  // trace that is there.
  const bool together = trained.ok() || absl::IsCancelled(trained);
  if (traces && (together || !log || log->is_open())) {
    const absl::Status traced = WriteTrace(options_.run.trace(), *runtime_, group_, together,
                                           prediction.run, observer_.notice);
    if (trained.ok()) trained = traced;
  }
  const MetricsLog::Losses losses = log ? log->losses() : MetricsLog::Losses();
  if (losses.nonfinite > 0) WarnOfSteps(losses);
  if (losses.without_labels > 1) {
    Notify(observer_.notice,
           absl::StrCat("warning: no label of ", losses.without_labels,
                        " steps counts: they have no loss, and nothing was learned in them"));
  }
  if (absl::IsCancelled(trained)) return Interrupted();
  RETURN_IF_ERROR(trained);
  if (losses.last && !std::isfinite(*losses.last)) {
    return absl::AbortedError(
        absl::StrCat("the loss of the last step is not finite: what was trained is of no use",
                     BeganNotFinite(losses)
                         ? absl::StrCat("; the first step was not finite either", kWeightsToBlame)
                         : "; go back to an earlier checkpoint, or begin again, "
                           "with a lower --learning_rate"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
