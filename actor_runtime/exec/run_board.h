// RunBoard: where the control thread and the workers of a process meet: it starts runs, learns of
// finished steps, keeps the first failure and knows when every worker is at rest. It moves no
// messages.
//
//   control: board.Start(); ... board.WaitForSteps(...) until all are at rest; board.TakeFailure()
//   worker:  while (board.WaitForRun(&seen)) { drive; board.Rest(); }
//
// Invariants (under mutex_):
//  1. Between Start and the last Rest, 0 < working_ <= workers; else working_ == 0.
//  2. steps_[w] is what worker w last said, and never falls within a run. Workers say it without
//  the
//     lock; whoever brings all past wanted_ takes it, to wake the control thread. Both sides write
//     first and read then, sequentially consistent, so one of them sees the other.
//  3. failure_ is the first one of the run; cancelled() is true from then to the next Start.
//  4. begun_ counts the steps that some device has begun; once it is closed it stays as it is, and
//     every worker goes as far as that (may_begin.h).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

namespace oneflow {

class RunBoard {
 public:
  // `on_failure`: called with the failure of a run that ends by it, while its workers may still
  // work. It must not block, and calls nothing of the board but cancelled().
  RunBoard(int workers, std::function<void(const absl::Status&)> on_failure);

  // Control thread.
  // Requires that all are at rest. `stop`, which may be null, belongs to the run: once it is true,
  // no step is begun that is not yet.
  void Start(const std::atomic<bool>* stop);
  void Quit();  // ends every WaitForRun for good
  // Waits until every worker has finished more than `steps` steps, or all are at rest; returns the
  // steps that every worker has finished.
  int64_t WaitForSteps(int64_t steps);
  bool AtRest();
  absl::Status TakeFailure();

  // Workers.
  bool WaitForRun(uint64_t* seen);  // false: quit. *seen: number of the last run, 0 at first
  // Whether a stream may begin a step. A step that one device begins, all finish; host streams only
  // prepare steps and report them. Whoever is told no wakes the others, which then see end().
  bool Begin(int64_t step, bool follows);
  void StepsDone(int worker, int64_t steps);
  void Rest();

  // Any thread. The steps after which the run ends early; a number beyond all steps where it goes
  // on.
  int64_t end() const;
  // The first failure of a run ends it; nothing happens when none is in progress.
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
  std::atomic<int64_t> wanted_;              // the control thread waits for more steps than these
  const std::atomic<bool>* stop_ = nullptr;  // constant while workers work
  std::atomic<int64_t> begun_{0};            // + kClosed once stop_ was seen
  absl::Status failure_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace oneflow
