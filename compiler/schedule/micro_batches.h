// Changes the number of micro-batches of a lowered program. Slots and bytes of a steady schedule do
// not depend on it, so a program is planned with few and then given all. So the cost of planning
// does not grow with M (law 7). The proof is of the program that has all.
#pragma once

#include <cstdint>

#include "compiler/lower/lowered.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Sets the rates of actors that fire once a step, and the orders of all streams, for
// `micro_batches`; slots and offsets stay. Requires both numbers to be 1, or both greater.
void SetMicroBatches(int64_t micro_batches, int stages, const Schedule& schedule, Lowered* lowered);

}  // namespace oneflow
