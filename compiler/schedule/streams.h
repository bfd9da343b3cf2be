// Adds streams and their orders: the firings of every queue of a stage in one step.
#pragma once

#include "compiler/lower/lowered.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Adds the streams of the program. "compute" is in the order of the schedule, between P and U.
// Every other lane is in the same order, with the segments that go with its tasks, those of one
// task in topological order. Receives are in the order of the stage that sends, so both ends of a
// stage pair agree even if a user's orders run chunks in different turns. Requires that the partner
// of every receive is its send.
void AddStreams(Lowered* lowered, int stages, const Schedule& schedule);

}  // namespace oneflow
