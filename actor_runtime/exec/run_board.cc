#include "actor_runtime/exec/run_board.h"

#include <algorithm>

#include <glog/logging.h>

namespace oneflow {

void RunBoard::Start() {
  {
    const std::lock_guard lock(mutex_);
    CHECK_EQ(working_, 0);
    working_ = static_cast<int>(steps_.size());
    std::fill(steps_.begin(), steps_.end(), 0);
    failure_ = absl::OkStatus();
    cancelled_.store(false);
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
  return steps_.empty() ? 0 : *std::min_element(steps_.begin(), steps_.end());
}

int64_t RunBoard::WaitForSteps(int64_t steps) {
  std::unique_lock lock(mutex_);
  to_control_.wait(lock, [&] { return working_ == 0 || FinishedByAll() > steps; });
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
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    const int64_t before = FinishedByAll();
    steps_[worker] = steps;
    news = FinishedByAll() != before;
  }
  if (news) to_control_.notify_one();
}

void RunBoard::Rest() {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    last = --working_ == 0;
  }
  if (last) to_control_.notify_one();
}

bool RunBoard::Fail(absl::Status status) {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return false;
  failure_ = std::move(status);
  cancelled_.store(true, std::memory_order_seq_cst);
  return true;
}

}  // namespace oneflow
