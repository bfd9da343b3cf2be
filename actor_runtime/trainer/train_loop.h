// The training loop of `oneflow train`: programs of one plan, run one after the other at step
// boundaries; the next one is a function of the step number alone.
//
// It is not a scheduler: a program needs none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/checkpoint/checkpoint.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/tokenizer/tokenizer_id.h"
#include "actor_runtime/trainer/metrics_log.h"
#include "actor_runtime/trainer/processes/process_group.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct TrainLoopOptions {
  uint64_t seed = 1;
  int64_t steps = 0;                                      // of the whole run
  int64_t tokens = 0;                                     // of the data that is trained on
  TokenizerId tokenizer;                                  // that made this data, where it is known
  std::shared_ptr<const TokenizerFiles> tokenizer_files;  // its files; null: not known
  MixtureParts mixture;                                   // of this data; empty: no mixture
  int64_t eval_every = 0;                                 // 0: only at the end
  int64_t eval_batches = 8;
  int64_t checkpoint_every = 0;  // 0: only at the end
  std::string checkpoint_dir;    // empty: no checkpoints; no other run writes there meanwhile
  int64_t keep = 0;              // complete checkpoints, the newest; 0: all
  bool resume = false;
  std::string init_from;  // checkpoint with whose weights a new run begins; empty: random ones
  WriterOptions writer;   // of checkpoints; process 0 begins and ends the attempt
  // Once it is true, no device begins a step that none has begun yet (RunOptions): the loop ends
  // early, with a checkpoint. A signal handler may set it. null: it does not end early.
  const std::atomic<bool>* stop = nullptr;
  int32_t end_of_text = -1;  // the token that ends a document of the data; -1: not known
  proto::Optimizer optimizer;
  ProcessGroup* processes = nullptr;  // that run the plan together; null: this one alone
};

// Trains from step 0 (program init, or load of the weights of init_from, with the optimizer's
// states at zero), or from the newest checkpoint of checkpoint_dir that verifies if `resume`
// (program load), to options.steps. `eval` may be null. Returns CANCELLED where options.stop, or a
// signal at one of the processes, ended it. All processes of a run call it with the same options;
// the log is process 0's, and null elsewhere.
absl::Status TrainLoop(const proto::Plan& plan, Runtime& runtime, const TokenSource& train,
                       const TokenSource* eval, MetricsLog* log, const TrainLoopOptions& options);

}  // namespace oneflow
