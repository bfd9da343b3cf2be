// The lower bound of a program's memory: the most bytes, over time, that are written and not yet
// returned. No planner gets below it with the same order of firings. The distance of our plans from
// it is the price of fixed addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// By stage, bytes of the program's own registers (a workspace holds something while its actor
// fires), in the order in which all streams fire as early as they may, over two steps. A fill takes
// its slot from its first write until its last reader has returned it.
std::vector<int64_t> LowerBound(const PlanNet& net, int stages);

// The same by actor: the most of these bytes of its stage's device memory at the times it fires.
std::vector<int64_t> HeldByActor(const PlanNet& net, int stages);

}  // namespace oneflow
