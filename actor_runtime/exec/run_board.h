// RunBoard: the board between the control thread and the workers of a process. It starts runs,
// counts finished steps, keeps the first failure and knows when every worker is at rest. It moves
// no messages.
//
//   control: board.Start(); ... board.WaitForSteps(...) until all are at rest; board.TakeFailure()
//   worker:  while (board.WaitForRun(&seen)) { drive; board.Rest(); }
//
// Invariants (under mutex_):
//  1. Between Start and the last Rest, 0 < working_ <= workers; else working_ == 0.
//  2. steps_[w] is the last count of worker w, and never falls within a run. Workers store it
//     without the lock; the worker that brings all past wanted_ takes the lock, to wake the control
//     thread. Both sides write first and then read, sequentially consistent, so one sees the other.
//  3. failure_ is the first one of the run; cancelled() is true from then to the next Start.
//  4. gate_ says which steps may begin; once it has an end, every worker goes as far as that.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/exec/step_gate.h"

namespace oneflow {

class RunBoard {
 public:
  // `on_failure` is called with a failure that ends a run, while its workers may still work. It
  // must not block, and calls nothing of the board but cancelled().
  RunBoard(int workers, std::function<void(const absl::Status&)> on_failure);

  // Control thread:
  //
  // Requires that all are at rest. `gate` belongs to the run, and is open, or already held; null:
  // the run takes all its steps.
  void Start(StepGate* gate);
  void Quit();  // ends every WaitForRun for good
  // Waits until every worker has finished more than `steps` steps, or all are at rest; returns the
  // steps that every worker has finished.
  int64_t WaitForSteps(int64_t steps);
  bool AtRest();
  absl::Status TakeFailure();

  // Workers:
  bool WaitForRun(uint64_t* seen);  // false: quit. *seen: number of the last run, 0 at first
  // Returns true if a stream may begin a step. A step that one device begins is finished by all;
  // host streams only prepare steps and report them. A worker that gets false wakes the others if
  // end() is known, so that they see it, too; else they are woken once it is known.
  bool Begin(int64_t step, bool follows) { return gate_->Begin(step, follows); }
  void StepsDone(int worker, int64_t steps);
  void Rest();

  // Any thread. The steps after which the run ends early; beyond all steps if it does not.
  int64_t end() const { return gate_->end(); }
  // Steps of the run in progress that every worker has finished.
  int64_t finished() const { return FinishedByAll(); }
  // Ends the run with its first failure; has no effect if no run is in progress.
  void Fail(const absl::Status& status);
  bool cancelled() const { return cancelled_.load(std::memory_order_seq_cst); }

 private:
  struct alignas(64) Steps {
    std::atomic<int64_t> done{0};
  };
  int64_t FinishedByAll() const;

  const std::function<void(const absl::Status&)> on_failure_;
  std::mutex mutex_;
  std::condition_variable to_workers_, to_control_;
  uint64_t run_ = 0;
  int working_ = 0;
  bool quit_ = false;
  std::vector<Steps> steps_;
  std::atomic<int64_t> wanted_;  // the control thread waits for more steps than these
  // Constant while workers work.
  StepGate own_gate_;
  StepGate* gate_ = &own_gate_;
  absl::Status failure_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace oneflow
