// Which firings a simulated run could not have done without any later, and how much later the
// others could have been.
#pragma once

#include <cstdint>
#include <vector>

#include "actor_runtime/simulate/simulate.h"

namespace oneflow {

struct CriticalFiring {
  int32_t actor = 0;  // concrete
  int64_t firing = 0;
  double waited = 0;  // seconds from the end of the one before it: for its message
};

struct CriticalPath {
  // From the first firing of the run to the one that ended last; each began when the one before it
  // ended (or a message later). Firings in periods that the simulator skipped are not listed, but
  // counted in the two sums below.
  std::vector<CriticalFiring> firings;
  std::vector<double> skipped_seconds;  // by concrete actor
  double skipped_messages = 0;
  // By concrete actor: seconds by which any one of its firings may end later without the run ending
  // later, if all others take what they took.
  std::vector<double> slack;
};

CriticalPath FindCriticalPath(const SimulatedRun& run);

}  // namespace oneflow
