// Utilization: how well a simulated run uses its devices.
#pragma once

#include <vector>

#include "planning/simulate/simulate.h"

namespace oneflow {

// Seconds a step of a device; all that is not hidden adds up to the step.
struct DeviceTime {
  double compute = 0;  // kernels run
  double exposed = 0;  // no kernel runs, but an exchange that the device has entered is carried
  double hidden = 0;   // an exchange is carried while kernels run
  double idle = 0;     // none of these, and no copy
  double exposed_copy = 0;  // nothing but copies between device and host is under way
  double hidden_copy = 0;   // such a copy is under way while kernels run or exchanges are carried
  bool operator==(const DeviceTime&) const = default;
};

struct Utilization {
  std::vector<double> stream_busy;  // seconds a step in which a firing ran, by stream
  std::vector<DeviceTime> devices;  // by rank
  // The part of a step in which a device neither computes nor exchanges within its stage nor
  // copies, on average over the devices: its wait for other stages, and for its host; (p-1) /
  // (m+p-1) for GPipe and 1F1B on p equal stages, m micro-batches and free links.
  double bubble = 0;
  // The same time over the rest of the step: (p-1) / m.
  double bubble_over_busy = 0;
};

// Exchanges and copies are counted from the second step on, if there is one, because the first has
// none before it.
Utilization FindUtilization(const SimulatedRun& run);

// True if the program moves more between device and host than what the host reads and reports:
// there is a stream of copies beside "copy.in" and "copy.out".
bool MovesToHost(const SimulatedRun& run);

}  // namespace oneflow
