// Outbox: the actions that a state machine asked for under its lock, done in that order after the
// lock has been released, by one thread at a time. So an action may wake other machines, which may
// call this one.
//
//   { std::lock_guard lock(mutex_); machine.Tick(now, [&](Action a) { outbox_.Put(a); }); }
//   outbox_.Drain([&](Action action) { ... });
#pragma once

#include <deque>
#include <mutex>
#include <utility>

namespace oneflow {

template <typename Action>
class Outbox {
 public:
  void Put(Action action) {
    std::lock_guard lock(mutex_);
    actions_.push_back(std::move(action));
  }

  // Does the actions that are there. If another thread already drains, or this thread does so
  // further up its stack, that drain does the rest, too, and this returns at once.
  template <typename Do>
  void Drain(Do perform) {
    std::unique_lock lock(mutex_);
    if (draining_) return;
    draining_ = true;
    while (!actions_.empty()) {
      Action action = std::move(actions_.front());
      actions_.pop_front();
      lock.unlock();
      perform(std::move(action));
      lock.lock();
    }
    draining_ = false;
  }

 private:
  std::mutex mutex_;
  std::deque<Action> actions_;
  bool draining_ = false;
};

}  // namespace oneflow
