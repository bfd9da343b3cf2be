// Streams and their orders: what every queue of a stage fires in one step.
#pragma once

#include "compiler/lower/lowered.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Adds the streams of the program: "compute" in the order of the schedule, then U; every other lane
// its segments in topological order, once for each micro-batch.
void AddStreams(Lowered* lowered, int stages, const Schedule& schedule);

}  // namespace oneflow
