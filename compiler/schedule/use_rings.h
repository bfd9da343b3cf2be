// Rings of uses: control registers bound the actors that run ahead of compute on a lane of their
// own, gathers of weights or copies from the host's memory. The uses of a task, such as the blocks
// of a forward, share a ring of d + 1 places; prefetch.h has the rule.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

using TaskKey = std::tuple<int, Part, int>;  // stage, part, chunk

// Returns the segment of each task on a lane, the last one if there are several, and the actors of
// all its segments there, in order. An update may have several on the compute lane.
std::map<TaskKey, int> SegmentsOn(Lane lane, const Lowered& lowered);
std::map<TaskKey, std::vector<int>> ActorsOn(Lane lane, const Lowered& lowered);

// Bounds the uses of a lane, and brings those of a task into the order in which compute needs them,
// unless some of its actors belong to no use. `ahead`: d.
void AddRings(Lane lane, const std::vector<std::vector<int>>& uses, int ahead, Lowered* lowered);

// Lets `waits` fire when `over` is done, `lag` micro-batches earlier.
void AddCredit(int over, int waits, int lag, Lowered* lowered);

}  // namespace oneflow
