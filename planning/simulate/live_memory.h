// The bytes of a simulated run that are in use over time: a slot is in use from the begin of the
// firing that starts to fill it to the end of the last firing that reads it. Only registers of the
// program count; persistent ones are always in use, and workspaces are not counted. Over periods
// that the simulator skipped the curve is at their maximum; the peak is that of all firings.
#pragma once

#include <cstdint>
#include <vector>

#include "planning/simulate/simulate.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct LiveMemory {
  struct Point {
    double time = 0;    // seconds
    int64_t bytes = 0;  // in use from then on
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> curve;  // in order of time; the first at 0
  int64_t peak_bytes = 0;
};

// The memory of the device of each stage, or what the device holds of its host's, by rank of the
// run. Requires the plan that was simulated.
std::vector<LiveMemory> FindLiveMemory(const proto::Plan& plan, const SimulatedRun& run,
                                       proto::MemoryKind kind = proto::DEVICE);

// The same curve with about `points` points: the maximum of each of that many pieces of the time
// that was simulated, which skipped periods are no part of. The last step has half of them, or all
// if there is no other; pieces of each half are equal. The peak stays.
std::vector<LiveMemory::Point> Coarsened(const LiveMemory& memory, const SimulatedRun& run,
                                         int points);

}  // namespace oneflow
