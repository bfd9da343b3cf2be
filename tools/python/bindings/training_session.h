// TrainingSession: a training that its owner steps through, on a thread of its own.
//
//   ASSIGN_OR_RETURN(auto session, TrainingSession::Open(words, caller));
//   RETURN_IF_ERROR(session->Begin());                 // the variables have their first values
//   while (session->Advance() == TrainingSession::kStepped) Show(session->step());
//   absl::Status status = session->End();
//
// Between two calls all devices rest. What is trained, saved and resumed is what `oneflow train`
// does with the same flags: the losses are the same bits.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/oneflow/cli/backend_flags.h"
#include "tools/oneflow/cli/caller.h"
#include "tools/oneflow/train/prepare_training.h"
#include "training/trainer/processes/process_group.h"
#include "training/trainer/trainer.h"

namespace oneflow {

class TrainingSession {
 public:
  // `words`: of `oneflow train`. Compiles and opens what they say; `caller` hears of it.
  static absl::StatusOr<std::unique_ptr<TrainingSession>> Open(
      const std::vector<std::string>& words, const Caller& caller);
  // Ends as End does.
  ~TrainingSession();

  // Each call waits for the thread of the training; one at a time.

  // Returns when the variables have their first values, or those of the checkpoint. Does nothing
  // if the training has begun.
  absl::Status Begin();
  // Trains up to the next update. kEnded: the run's steps are done, or the training has failed;
  // End says.
  enum Outcome { kStepped, kEnded };
  Outcome Advance();
  // Ends where it is, with a checkpoint if the run has a folder for one. CANCELLED where steps were
  // left; else the status of the training.
  absl::Status End();

  // End, and gives up the memory of the devices and the folder of checkpoints.
  absl::Status Close();

  // Of the last Advance that stepped.
  const TrainedStep& step() const { return step_; }
  int64_t steps_done() const { return steps_done_; }
  const proto::Plan& plan() const { return prepared_.plan; }
  // The pieces of all variables on all devices. Between Begin and Close.
  absl::Status VisitVariables(const std::function<absl::Status(const Piece& piece)>& visit);
  // The sentences since the last call.
  std::vector<std::string> TakeNotices();

 private:
  enum State { kNew, kRuns, kRests, kOver };

  explicit TrainingSession(PreparedTraining prepared) : prepared_(std::move(prepared)) {}
  absl::Status Create();
  bool Rest(int64_t steps_done);
  State Continue();

  const PreparedTraining prepared_;
  SoleProcess group_;
  std::optional<GpuBackend> gpus_;
  std::unique_ptr<TokenSource> train_, validation_;
  std::unique_ptr<Trainer> trainer_;
  RunPrediction prediction_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = kNew;   // under mutex_, as all below
  bool ends_ = false;    // at the next rest
  absl::Status status_;  // of Trainer::Run
  std::vector<std::string> notices_;
  TrainedStep step_;
  std::vector<double> counts_;  // of step_
  int64_t steps_done_ = 0;
  std::thread thread_;
};

}  // namespace oneflow
