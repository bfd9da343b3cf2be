// The least bytes that a program's order can do with: what is written and not yet returned, at most
// at once. No planner gets below it without another order; how far ours is above it is the price of
// places that do not move.
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// By stage, bytes of the program's own registers (a workspace holds something while its actor
// fires), in the order in which all streams fire as early as they may, over two steps. A fill takes
// its slot from its first write until its last reader has returned it.
std::vector<int64_t> LowerBound(const PlanNet& net, int stages);

}  // namespace oneflow
