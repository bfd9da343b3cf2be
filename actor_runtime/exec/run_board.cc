#include "actor_runtime/exec/run_board.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <glog/logging.h>

namespace oneflow {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

}  // namespace

RunBoard::RunBoard(int workers, std::function<void(const absl::Status&)> on_failure)
    : on_failure_(std::move(on_failure)), steps_(workers), wanted_(kNone) {}

void RunBoard::Start(StepGate* gate) {
  {
    const std::lock_guard lock(mutex_);
    CHECK_EQ(working_, 0);
    working_ = static_cast<int>(steps_.size());
    for (Steps& steps : steps_) steps.done.store(0);
    failure_ = absl::OkStatus();
    cancelled_.store(false);
    own_gate_.Open();
    gate_ = gate == nullptr ? &own_gate_ : gate;
    ++run_;
  }
  to_workers_.notify_all();
}

void RunBoard::Quit() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
  }
  to_workers_.notify_all();
}

int64_t RunBoard::FinishedByAll() const {
  int64_t finished = kNone;
  for (const Steps& steps : steps_) finished = std::min(finished, steps.done.load());
  return finished;
}

int64_t RunBoard::WaitForSteps(int64_t steps) {
  std::unique_lock lock(mutex_);
  wanted_.store(steps);
  to_control_.wait(lock, [&] { return working_ == 0 || FinishedByAll() > steps; });
  wanted_.store(kNone);
  return FinishedByAll();
}

bool RunBoard::AtRest() {
  const std::lock_guard lock(mutex_);
  return working_ == 0;
}

absl::Status RunBoard::TakeFailure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool RunBoard::WaitForRun(uint64_t* seen) {
  std::unique_lock lock(mutex_);
  to_workers_.wait(lock, [&] { return quit_ || run_ != *seen; });
  *seen = run_;
  return !quit_;
}

void RunBoard::StepsDone(int worker, int64_t steps) {
  steps_[worker].done.store(steps);
  const int64_t wanted = wanted_.load();
  if (steps <= wanted || FinishedByAll() <= wanted) return;
  // The control thread has checked and not yet gone to sleep, or it sleeps.
  { const std::lock_guard lock(mutex_); }
  to_control_.notify_one();
}

void RunBoard::Rest() {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    last = --working_ == 0;
  }
  if (last) to_control_.notify_one();
}

void RunBoard::Fail(const absl::Status& status) {
  // This holds the lock so that a caller that hears that all are at rest does not meet a callback
  // of the run before.
  const std::lock_guard lock(mutex_);
  if (working_ == 0 || !failure_.ok()) return;
  failure_ = status;
  cancelled_.store(true, std::memory_order_seq_cst);
  on_failure_(status);
}

}  // namespace oneflow
