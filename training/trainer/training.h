// The parts of one training: what it is asked for, its data, and who hears of it. A user's choices
// are proto::Run; each is read where it is obeyed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/kernel/run_context.h"
#include "planning/simulate/simulate.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "training/checkpoint/checkpoint.h"
#include "training/tokenizer/tokenizer_id.h"
#include "training/trainer/metrics_log.h"
#include "training/trainer/notice.h"
#include "training/trainer/processes/process_group.h"

namespace oneflow {

// The same in all processes, but for `runtime`.
struct TrainerOptions {
  proto::Run run;       // the user's; completed by CompleteRun
  int64_t attempt = 0;  // the training's; attempts of one folder have different numbers
  // Process 0 locks the folder of checkpoints, so that no other run writes there. False: a job sees
  // to that, and an older attempt of it may hold the lock on a host that was lost.
  bool locks_folder = true;
  bool watches = true;     // a thread watches for standstills (watchdog.h)
  RuntimeOptions runtime;  // options that neither the run nor the group sets
};

struct TrainerData {
  const TokenSource* train = nullptr;
  const TokenSource* validation = nullptr;  // null: nothing is validated
  int64_t tokens = 0;                       // the training data's
  TokenizerId tokenizer;                    // the one that made this data, if it is known
  std::shared_ptr<const TokenizerFiles> tokenizer_files;  // its files; null: not known
  MixtureParts mixture;                                   // the data's; empty: no mixture
  RecordsId records;                                      // the training data's
  int32_t end_of_text = -1;      // the token that ends a document of the data; -1: not known
  bool marks_documents = false;  // the sources say which tokens begin a document (run_context.h)
  std::string train_name = "the data", validation_name = "the data";  // for messages
};

// The run with what it leaves out: the optimizer's numbers are the plan's, all else has the
// defaults of its rows.
proto::Run CompleteRun(const proto::Plan& plan, proto::Run run);

// For a message that no label of some data counts: why, and what to do. `end_of_text`: as above.
std::string WhyNoLabels(const std::string& data_name, int32_t end_of_text);

// Each may be null.
struct TrainerObserver {
  Notice notice;
  // In process 0: called for each step when it is in the file of metrics, one at a time, on a
  // thread of the log.
  std::function<void(const TrainedStep& step)> on_step;
  // In process 0: the loss of the validation of a checkpoint that nothing is left to train of.
  std::function<void(int64_t steps_done, const MeanLoss& loss)> on_evaluated;
  // In process 0: called ten times a second, on the watchdog's thread, while files may be written.
  std::function<void()> on_look;
  // Called when the last step is done, or the training has failed: AskStop has no effect any more.
  std::function<void()> on_trained;
  // In a group of one: called before the first step and after each update, when all devices rest,
  // on the thread of Trainer::Run; steps_done: of the run. False ends the training there, as a stop
  // does. With it steps of a pipe do not overlap.
  std::function<bool(int64_t steps_done)> between_steps;
  // Asked as often as on_look is called: true once a report of the workers is wanted.
  std::function<bool()> wants_report;
};

// Facts that are known of a run before it begins, all optional.
struct RunPrediction {
  double machine_flops = 0;           // the machine's own matrix rate, as measured; 0: not known
  double step_seconds = 0;            // promised; 0: nothing was promised
  const SimulatedRun* run = nullptr;  // steps that the trace has beside the measured ones
};

// One training, as its parts see it. All outlive it.
struct Training {
  const proto::Plan& plan;
  const TrainerData& data;
  const TrainerOptions& options;
  const proto::Run& run;  // the options' run
  const TrainerObserver& observer;
  ProcessGroup& group;
  Runtime& runtime;

  // Only process 0 speaks of what all of them see.
  void Say(const std::string& sentence) const {
    if (group.IsFirst()) Notify(observer.notice, sentence);
  }
};

}  // namespace oneflow
