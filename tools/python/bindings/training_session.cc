#include "tools/python/bindings/training_session.h"

#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "tools/oneflow/cli/call_verb.h"
#include "tools/oneflow/cli/one_process.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/train/check_run.h"
#include "tools/oneflow/train/machine_flops.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<TrainingSession>> TrainingSession::Open(
    const std::vector<std::string>& words, const Caller& caller) {
  std::optional<PreparedTraining> prepared;
  const Verb train{.id = verbs::kTrain};
  RETURN_IF_ERROR(
      CallWithArguments(train, words, caller, [&](const Arguments& args) -> absl::Status {
        ASSIGN_OR_RETURN(proto::Run run, RunToPrepare(args));
        ASSIGN_OR_RETURN(const JobPlacement placement, PlacementFromFlags(run));
        if (placement.processes > 1) {
          return InputError("--processes", "a Trainer is one process",
                            "start `oneflow train --processes=N`, or `oneflow submit`");
        }
        if (run.has_serve()) {
          return InputError("--serve=" + run.serve(), "is of `oneflow train` alone",
                            "leave it out: a Trainer's steps are seen where it runs");
        }
        RETURN_IF_ERROR(CheckRunHere(run, /*processes=*/1));
        ASSIGN_OR_RETURN(proto::Plan plan, PlanFromFlags(args));
        RETURN_IF_ERROR(CheckHostLink(run, plan));
        ASSIGN_OR_RETURN(prepared, PrepareTraining(std::move(run), std::move(plan)));
        return absl::OkStatus();
      }));
  std::unique_ptr<TrainingSession> session(new TrainingSession(*std::move(prepared)));
  RETURN_IF_ERROR(session->Create());
  return session;
}

absl::Status TrainingSession::Create() {
  const proto::Plan& plan = prepared_.plan;
  const proto::Run& run = prepared_.run;
  const TrainingData& data = prepared_.data;
  ASSIGN_OR_RETURN(gpus_, OpenGpus(run, plan, group_));
  TrainerOptions options{.run = run};
  if (gpus_) options.runtime.backend = &gpus_->devices;
  TrainerObserver observer;
  observer.notice = [this](const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    notices_.push_back(sentence);
  };
  observer.on_step = [this](const TrainedStep& step) {
    const std::lock_guard lock(mutex_);
    counts_.assign(step.counts.begin(), step.counts.end());
    step_ = step;
    step_.counts = counts_;
  };
  observer.between_steps = [this](int64_t steps_done) { return Rest(steps_done); };
  train_ = TrainSource(run, data, SamplesOfStep(plan));
  const proto::Program* eval = FindProgram(plan, "eval");
  validation_ =
      ValidationSource(run, data, eval == nullptr ? SamplesOfStep(plan) : eval->micro_batch_size());
  ASSIGN_OR_RETURN(trainer_,
                   Trainer::Create(plan, DataOfTrainer(run, data, train_.get(), validation_.get()),
                                   options, &group_, std::move(observer)));
  if (!gpus_) {
    ASSIGN_OR_RETURN(prediction_.machine_flops, MachineFlops(trainer_->runtime(), group_));
  }
  notices_.insert(notices_.end(), data.warnings.begin(), data.warnings.end());
  return absl::OkStatus();
}

TrainingSession::~TrainingSession() { End().IgnoreError(); }

// Of the training's thread.
bool TrainingSession::Rest(int64_t steps_done) {
  std::unique_lock lock(mutex_);
  steps_done_ = steps_done;
  if (ends_) return false;
  state_ = kRests;
  changed_.notify_all();
  changed_.wait(lock, [&] { return state_ != kRests; });
  return !ends_;
}

TrainingSession::State TrainingSession::Continue() {
  std::unique_lock lock(mutex_);
  if (state_ == kNew) {
    thread_ = std::thread([this] {
      absl::Status status = trainer_->Run(prediction_);
      const std::lock_guard over(mutex_);
      status_ = std::move(status);
      state_ = kOver;
      changed_.notify_all();
    });
  }
  if (state_ == kOver) return state_;
  state_ = kRuns;
  changed_.notify_all();
  changed_.wait(lock, [&] { return state_ != kRuns; });
  return state_;
}

absl::Status TrainingSession::Begin() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != kNew) return absl::OkStatus();
  }
  if (Continue() == kRests) return absl::OkStatus();
  return End();
}

TrainingSession::Outcome TrainingSession::Advance() {
  Begin().IgnoreError();  // End has its error
  const int64_t before = steps_done_;
  return Continue() == kRests && steps_done_ > before ? kStepped : kEnded;
}

absl::Status TrainingSession::End() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    if (state_ == kNew) state_ = kOver;  // nor does it begin any more
  }
  // The last rest may come before it is known that the run ends.
  while (Continue() != kOver) {
  }
  if (thread_.joinable()) thread_.join();
  return status_;
}

absl::Status TrainingSession::Close() {
  absl::Status status = End();
  trainer_ = nullptr;
  return status;
}

absl::Status TrainingSession::VisitVariables(
    const std::function<absl::Status(const Piece& piece)>& visit) {
  {
    const std::lock_guard lock(mutex_);
    if (trainer_ == nullptr || state_ == kNew || state_ == kRuns) {
      return InputError("tensor", "the training has ended, or runs a step",
                        "read it in the block of the Trainer, between two steps");
    }
  }
  return trainer_->VisitVariables(visit);
}

std::vector<std::string> TrainingSession::TakeNotices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

}  // namespace oneflow
