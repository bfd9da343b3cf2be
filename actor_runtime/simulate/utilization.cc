#include "actor_runtime/simulate/utilization.h"

#include <algorithm>
#include <numeric>

namespace oneflow {
namespace {

constexpr double kRounding = 1e-12;

}  // namespace

Utilization UtilizationOf(const SimulatedRun& run) {
  Utilization result;
  result.device_busy.resize(run.net.own.size(), 0);
  for (const StreamOrder& stream : run.net.streams) {
    double busy = 0;
    // Every firing of an actor takes the same time.
    for (const int32_t actor : stream.actors) {
      busy += static_cast<double>(run.net.firings[actor]) *
              run.options.actor_seconds[run.net.specs[actor].actor];
    }
    busy /= static_cast<double>(run.steps_a_round);
    result.stream_busy.push_back(busy);
    if (stream.host) continue;
    result.device_busy[stream.rank] = std::max(result.device_busy[stream.rank], busy);
  }
  const double step = run.StepSeconds();
  const double mean = std::accumulate(result.device_busy.begin(), result.device_busy.end(), 0.0) /
                      run.net.own.size();
  // Sums in another order may be a rounding apart.
  const double waits = step - mean > kRounding * step ? step - mean : 0;
  if (step > 0) result.bubble = waits / step;
  if (mean > 0) result.bubble_over_busy = waits / mean;
  return result;
}

}  // namespace oneflow
