// ListeningClock: the time in which a process was listening. By this time, not by that of the wall,
// it judges that another one is silent: a process that was stopped, or had no processor, has heard
// nobody meanwhile, and that says nothing about the others.
//
//   clock.Pass(now - last, beat);                       at every event, and at least once a beat
//   heard = clock.time();                               something of the other one has arrived
//   if (clock.time() - heard >= silence) ...            it is silent
#pragma once

#include <algorithm>
#include <cstdint>

namespace oneflow {

// A time or a duration in nanoseconds, of a clock that goes on while the process is stopped
// (CLOCK_BOOTTIME in programs, a number that tests count in the state machines).
using JobTime = int64_t;
inline constexpr JobTime kJobSecond = 1'000'000'000;

// The period of beats, by the limit of silence.
inline constexpr JobTime BeatsEvery(JobTime silence) { return silence / 10; }

class ListeningClock {
 public:
  // So much time has passed since the last event. A gap of more than two beats counts as two.
  void Pass(JobTime gap, JobTime beat) { time_ += std::min(gap, 2 * beat); }
  JobTime time() const { return time_; }

 private:
  JobTime time_ = 0;
};

}  // namespace oneflow
