// How well a simulated run uses its devices.
#pragma once

#include <vector>

#include "actor_runtime/simulate/simulate.h"

namespace oneflow {

struct Utilization {
  std::vector<double> stream_busy;  // seconds a step in which a firing ran, by stream
  std::vector<double> device_busy;  // by rank: of its busiest stream
  // Part of a step that a device waits, on average over the devices; (p-1) / (m+p-1) for GPipe and
  // 1F1B on p equal stages, m micro-batches and free links.
  double bubble = 0;
  // The same over what is not waiting: (p-1) / m.
  double bubble_over_busy = 0;
};

Utilization UtilizationOf(const SimulatedRun& run);

}  // namespace oneflow
