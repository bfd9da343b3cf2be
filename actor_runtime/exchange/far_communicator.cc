#include "actor_runtime/exchange/far_communicator.h"

#include <algorithm>

namespace oneflow {

// Passes an event on, with `send_` to take its actions. It wakes the members here, except the one
// whose thread calls, if an exchange is over, or if work or a failure is new.
template <typename Event>
void FarCommunicator::Do(int caller, Event event) {
  const std::lock_guard lock(mutex_);
  const bool had_work = exchange_.HasWork(), had_failed = IsFailed();
  const uint64_t were_over = exchange_.exchanges_over();
  event();
  if (exchange_.exchanges_over() == were_over && (had_work || !exchange_.HasWork()) &&
      (had_failed || !IsFailed())) {
    return;
  }
  for (int member = 0; member < exchange_.members(); ++member) {
    if (member != caller && exchange_.IsNear(member)) wake_(member);
  }
}

void FarCommunicator::SetWake(std::function<void(int member)> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void FarCommunicator::Enter(int member, const ExchangeEntry& entry) {
  Do(member, [&] { exchange_.Enter(member, entry, send_); });
}

// Returns true if there was a piece to take.
bool FarCommunicator::Work(int member) {
  FarExchange::Work work;
  {
    const std::lock_guard lock(mutex_);
    if (!exchange_.TakeWork(&work)) return false;
  }
  exchange_.Run(work);
  Do(member, [&] { exchange_.WorkDone(work, send_); });
  return true;
}

Communicator::Progress FarCommunicator::Poll(int member, ThreadPool* pool) {
  int left = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!exchange_.status().ok()) return IsFailed() ? kFailed : kWaiting;
    if (exchange_.IsOver(member)) return kOver;
    left = exchange_.WorkLeft();
  }
  if (left == 0) return kWaiting;
  const auto work = [&](int, int) {
    while (Work(member)) {
    }
  };
  // The pool's threads are used only if each has at least two pieces.
  const int threads = std::min(pool == nullptr ? 1 : pool->threads(), left / 2);
  threads > 1 ? pool->ParallelFor(threads, work) : work(0, 0);
  const std::lock_guard lock(mutex_);
  return exchange_.status().ok() && exchange_.IsOver(member) ? kOver : kWorked;
}

bool FarCommunicator::CanProgress(int member) const {
  const std::lock_guard lock(mutex_);
  if (!exchange_.status().ok()) return IsFailed();
  return exchange_.IsOver(member) || exchange_.HasWork();
}

bool FarCommunicator::HasEntered(int member, int than) const {
  const std::lock_guard lock(mutex_);
  return exchange_.HasEntered(member, than);
}

void FarCommunicator::Abort(const absl::Status& status) {
  Do(-1, [&] { exchange_.Abort(status, send_); });
}

absl::Status FarCommunicator::status() const {
  const std::lock_guard lock(mutex_);
  return exchange_.status();
}

absl::Status FarCommunicator::Receive(const FarMessage& message) {
  absl::Status status;
  Do(-1, [&] { status = exchange_.Receive(message, send_); });
  return status;
}

absl::StatusOr<std::span<std::byte>> FarCommunicator::Arriving(const FarMessage& message) {
  const std::lock_guard lock(mutex_);
  return exchange_.Arriving(message);
}

void FarCommunicator::Arrived(const FarMessage& message) {
  Do(-1, [&] { exchange_.Arrived(message, send_); });
}

void FarCommunicator::Sent() {
  Do(-1, [&] { exchange_.Sent(); });
}

}  // namespace oneflow
