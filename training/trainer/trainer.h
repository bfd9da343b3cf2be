// Trainer: trains a plan, in one process or as one of a group. It takes plain values, prints
// nothing and reads no flags: what it does is reported to an observer.
//
//   SoleProcess group;
//   TrainerOptions options;
//   options.run.set_steps(20);
//   ASSIGN_OR_RETURN(auto trainer, Trainer::Create(plan, {.train = &tokens}, options, &group, {}));
//   RETURN_IF_ERROR(trainer->Run());
//   group.Leave();
//
// It reads no data (TokenSource does), compiles nothing and restarts nothing.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "training/trainer/folder_lock.h"
#include "training/trainer/training.h"

namespace oneflow {

class Trainer {
 public:
  // Makes the runtime of this process's ranks, takes the folder of checkpoints, and decides with
  // the group whether the training goes on from one. `plan`, the sources of `data` and `group`
  // outlive the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const proto::Plan& plan, TrainerData data,
                                                         TrainerOptions options,
                                                         ProcessGroup* group,
                                                         TrainerObserver observer);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains to run.steps, from step 0 (program init, or load of the weights of init_from, with
  // the optimizer's states at zero) or from the newest checkpoint that verifies (program load).
  // Then writes the trace, even if the training failed. CANCELLED, with the latest checkpoint,
  // where it was stopped: all processes then stop after the same step, with a checkpoint. ABORTED
  // where the last loss is not finite. May be called again if the group has forgotten the stop, as
  // that of the simulated cluster does; whether it goes on is decided anew.
  absl::Status Run(const RunPrediction& prediction = {});

  // The training ends after complete steps, in all processes; at once where this is the only one
  // and has no folder for a checkpoint. Any thread, repeatedly, since a run may begin meanwhile.
  void AskStop();

  // Hands on the pieces of all variables, which are on the devices of this process: within
  // observer.between_steps, and after Run.
  absl::Status VisitVariables(const std::function<absl::Status(const Piece& piece)>& visit);

  const Runtime& runtime() const { return *runtime_; }
  Isa isa() const { return options_.runtime.isa; }  // its kernels' instruction set

 private:
  Trainer(const proto::Plan& plan, TrainerData data, TrainerOptions options, ProcessGroup* group,
          TrainerObserver observer);
  absl::StatusOr<bool> GoesOn();
  absl::Status TakeFolder();
  absl::Status RunWatched(MetricsLog* log, bool goes_on);
  MetricsOptions OptionsOfLog(const RunPrediction& prediction);
  absl::Status Interrupted() const;
  static bool BeganNotFinite(const MetricsLog::Losses& losses);
  void WarnOfSteps(const MetricsLog::Losses& losses) const;

  const proto::Plan& plan_;
  const TrainerData data_;
  TrainerOptions options_;
  ProcessGroup& group_;
  const TrainerObserver observer_;
  std::unique_ptr<Runtime> runtime_;
  std::optional<FolderLock> lock_;
  std::optional<bool> goes_on_;  // decided before the run begins
  std::atomic<bool> stop_asked_{false};
};

}  // namespace oneflow
