// StepGate: decides which steps of a run may begin. A run that ends early ends after complete
// steps, the same on all devices: each device finishes the steps that any device has begun. Devices
// of one process agree through this object alone; processes agree on the greatest number of steps
// that any of them has begun:
//
//   const int64_t begun = gate.Hold();       // in each process: no new step begins from here on
//   ... the maximum over all processes ...
//   gate.EndAt(greatest);                    // in each process: the run ends after so many steps
//
// It holds nobody inside a step: threads wait for it only to begin one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>

namespace oneflow {

// True if step n of a run may begin. `begun`: steps 0 .. begun - 1 have been begun by at least one
// device. All devices finish these. Once the run is held, no other step begins.
constexpr bool MayBegin(int64_t step, int64_t begun, bool held) { return step < begun || !held; }

class StepGate {
 public:
  static constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

  // Between runs: no step of the next run has begun, and it goes on to its end.
  void Open() { begun_.store(0); }

  // For workers. A stream that follows begins no step, but goes ahead while the run is not held.
  bool Begin(int64_t step, bool follows) {
    int64_t begun = begun_.load();
    while (MayBegin(step, begun & kSteps, (begun & kHeld) != 0)) {
      if (follows || step < (begun & kSteps)) return true;
      if (begun_.compare_exchange_weak(begun, (begun & ~kSteps) | (step + 1))) return true;
    }
    return false;
  }
  // The steps after which the run ends early; kNoEnd if that is not known.
  int64_t end() const {
    const int64_t begun = begun_.load();
    return (begun & kEnds) != 0 ? begun & kSteps : kNoEnd;
  }

  // Any thread. The steps that have begun.
  int64_t begun() const { return begun_.load() & kSteps; }
  // Returns the steps that have begun; no other begins until EndAt. Any thread.
  int64_t Hold() { return begun_.fetch_or(kHeld) & kSteps; }
  // Any thread, once in a run. Requires at least the result of Hold, unless the run has not begun.
  // The caller must wake the workers of the run.
  void EndAt(int64_t steps) { begun_.store(steps | kHeld | kEnds); }
  // Any thread, instead of EndAt: the run goes on to its end. The caller must wake its workers.
  void Release() { begun_.fetch_and(~kHeld); }

 private:
  static constexpr int64_t kHeld = int64_t{1} << 61, kEnds = int64_t{1} << 62, kSteps = kHeld - 1;
  std::atomic<int64_t> begun_{0};  // and flags
};

}  // namespace oneflow
