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
  // Sums over the firings in the periods that a repeat of the run stands for.
  struct Skipped {
    std::vector<double> seconds;  // by concrete actor
    double waited = 0;
  };
  // The path from the first firing of the run to the firing that ended last; each began when the
  // one before it ended (or a message later). Firings in periods that the simulator skipped are not
  // listed, but summed.
  std::vector<CriticalFiring> firings;
  std::vector<Skipped> skipped;  // by repeat of the run
  // By concrete actor: the seconds by which any one of its firings may end later without a later
  // end of the run, if all other durations stay the same.
  std::vector<double> slack;
};

CriticalPath FindCriticalPath(const SimulatedRun& run);

}  // namespace oneflow
