// The critical path of a simulated run, and the slack of all other firings.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/simulate/simulate.h"

namespace oneflow {

struct CriticalFiring {
  int32_t actor = 0;  // concrete
  int64_t firing = 0;
  double waited = 0;  // seconds from the end of the one before it: for its message, or to be issued
};

struct CriticalPath {
  // The path from the first firing of the run to the firing that ended last; each began when the
  // one before it ended (or a message later). Firings in periods that the simulator skipped are not
  // listed, but they count in the two sums below.
  std::vector<CriticalFiring> firings;
  std::vector<double> skipped_seconds;  // by concrete actor
  double skipped_messages = 0;
  // By concrete actor: the seconds by which any one of its firings may end later without a later
  // end of the run, if all other durations stay the same.
  std::vector<double> slack;
};

CriticalPath FindCriticalPath(const SimulatedRun& run);

}  // namespace oneflow
