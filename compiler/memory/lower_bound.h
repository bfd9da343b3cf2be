// The lower bound of a program's memory: the most bytes, over time, that are written and not yet
// returned. No planner gets below it with the same order of firings. The distance of our plans from
// it is the cost of fixed addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Returns by stage the bytes of the program's own registers; a workspace is full while its actor
// fires. All streams fire as early as they may, over two steps. A fill takes its slot from its
// first write until its last reader has returned it.
std::vector<int64_t> LowerBound(const PlanNet& net, int stages);

// Returns by actor the most of these bytes in its stage's device memory at the times it fires.
std::vector<int64_t> HeldByActor(const PlanNet& net, int stages);

}  // namespace oneflow
