#include "actor_runtime/simulate/utilization.h"

#include <algorithm>
#include <numeric>

namespace oneflow {

Utilization UtilizationOf(const SimulatedRun& run) {
  Utilization result;
  result.device_busy.resize(run.net.ranks, 0);
  for (const StreamOrder& stream : run.net.streams) {
    double busy = 0;
    // Every firing of an actor takes the same time.
    for (const int32_t place : stream.firings) {
      busy += run.options.actor_seconds[run.net.specs[stream.actors[place]].actor];
    }
    result.stream_busy.push_back(busy);
    if (stream.host) continue;
    result.device_busy[stream.rank] = std::max(result.device_busy[stream.rank], busy);
  }
  const double step = run.StepSeconds();
  const double mean =
      std::accumulate(result.device_busy.begin(), result.device_busy.end(), 0.0) / run.net.ranks;
  if (step > 0) result.bubble = 1 - mean / step;
  if (mean > 0) result.bubble_over_busy = step / mean - 1;
  return result;
}

}  // namespace oneflow
