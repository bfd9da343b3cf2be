// StepGate: which steps of a run may begin. A run that is to end early ends after whole steps, the
// same on all devices: each finishes what any of them has begun. Devices of one process agree by
// this object alone; processes agree on the greatest number that any of them has begun:
//
//   const int64_t begun = gate.Hold();       // each: from here on no step begins that none has
//   begun
//   ... the greatest of all processes' ...
//   gate.EndAt(greatest);                    // each: the run ends after so many steps
//
// It holds nobody inside a step, and nobody waits for it but to begin one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>

namespace oneflow {

// May step n of a run begin? `begun`: the steps that at least one device has begun, 0 .. begun - 1.
// All devices finish these. Once the run is held, no other step begins.
constexpr bool MayBegin(int64_t step, int64_t begun, bool held) { return step < begun || !held; }

class StepGate {
 public:
  static constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

  // Between runs: no step of the next one has begun, and it goes on to its end.
  void Open() { begun_.store(0); }

  // Workers. A stream that follows begins no step, but goes ahead while the run is not held.
  bool Begin(int64_t step, bool follows) {
    int64_t begun = begun_.load();
    while (MayBegin(step, begun & kSteps, (begun & kHeld) != 0)) {
      if (follows || step < (begun & kSteps)) return true;
      if (begun_.compare_exchange_weak(begun, (begun & ~kSteps) | (step + 1))) return true;
    }
    return false;
  }
  // The steps after which the run ends early; kNoEnd where that is not known.
  int64_t end() const {
    const int64_t begun = begun_.load();
    return (begun & kEnds) != 0 ? begun & kSteps : kNoEnd;
  }

  // Any thread. The steps that have begun.
  int64_t begun() const { return begun_.load() & kSteps; }
  // The same; no other begins until EndAt.
  int64_t Hold() { return begun_.fetch_or(kHeld) & kSteps; }
  // Any thread, once in a run. At least what Hold said, unless the run has not begun. The workers
  // of the run must be woken.
  void EndAt(int64_t steps) { begun_.store(steps | kHeld | kEnds); }
  // Any thread, in the place of EndAt: the run goes on to its end. Its workers must be woken.
  void Release() { begun_.fetch_and(~kHeld); }

 private:
  static constexpr int64_t kHeld = int64_t{1} << 61, kEnds = int64_t{1} << 62, kSteps = kHeld - 1;
  std::atomic<int64_t> begun_{0};  // and flags
};

}  // namespace oneflow
