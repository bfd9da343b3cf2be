// BusyClock: for how long a thread has worked since it began, the times that it waited left out.
//
//   clock.Start(Now());
//   clock.Wait(Now()); ... clock.Work(Now());
//   int64_t worked = clock.Worked(Now());
//
// One thread tells it, any thread asks. Times are of one monotonic clock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace oneflow {

class BusyClock {
 public:
  void Start(int64_t now) { Set(now, true); }
  // Now it waits; requires that it works.
  void Wait(int64_t now) { Set(now - Value(), false); }
  // Now it works; requires that it waits.
  void Work(int64_t now) { Set(now - Value(), true); }
  void Clear() { Set(0, false); }

  int64_t Worked(int64_t now) const {
    const int64_t state = state_.load(std::memory_order_relaxed);
    return (state & 1) != 0 ? std::max<int64_t>(0, now - (state >> 1)) : state >> 1;
  }

 private:
  // While it works: when it would have begun, had it never waited. Else: for how long it worked.
  int64_t Value() const { return state_.load(std::memory_order_relaxed) >> 1; }
  // One word, so that whoever asks sees both or neither.
  void Set(int64_t value, bool works) {
    state_.store(value * 2 + (works ? 1 : 0), std::memory_order_relaxed);
  }

  std::atomic<int64_t> state_{0};
};

}  // namespace oneflow
