// Streams and their orders: what every queue of a stage fires in one step.
#pragma once

#include "compiler/lower/lowered.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Adds the streams of the program: "compute" in the order of the schedule, between P and U; every
// other lane in the same order, as far as it has segments that go with a task, those of one task in
// topological order. Receives stand in the order of the stage that sends, so both ends of a stage
// pair agree even if a user's orders take chunks in different turns. Requires of every receive that
// its partner is its send.
void AddStreams(Lowered* lowered, int stages, const Schedule& schedule);

}  // namespace oneflow
