// BusyClock: the time for which a thread has worked since it began, without the times that it
// waited.
//
//   clock.Start(Now());
//   clock.Wait(Now()); ... clock.Work(Now());
//   int64_t worked = clock.Worked(Now());
//
// One thread updates it, any thread reads it. Times are of one monotonic clock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace oneflow {

class BusyClock {
 public:
  void Start(int64_t now) { Set(now, true); }
  // The thread begins to wait; requires that it works.
  void Wait(int64_t now) { Set(now - Value(), false); }
  // The thread begins to work; requires that it waits.
  void Work(int64_t now) { Set(now - Value(), true); }
  void Clear() { Set(0, false); }

  int64_t Worked(int64_t now) const {
    const int64_t state = state_.load(std::memory_order_relaxed);
    return (state & 1) != 0 ? std::max<int64_t>(0, now - (state >> 1)) : state >> 1;
  }

 private:
  // If the thread works: when it would have begun, had it never waited. Else: the time it has
  // worked.
  int64_t Value() const { return state_.load(std::memory_order_relaxed) >> 1; }
  // Both fields are in one word, so that a reader sees both change or neither.
  void Set(int64_t value, bool works) {
    state_.store(value * 2 + (works ? 1 : 0), std::memory_order_relaxed);
  }

  std::atomic<int64_t> state_{0};
};

}  // namespace oneflow
