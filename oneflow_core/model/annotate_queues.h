// Annotates the queues of a mixture of experts (oneflow_core/op/route_dims.h) for a price.
//
// If devices split the experts of a mixture that drops nothing, each has slots for all tokens. They
// are empty but for those of a few: a training pays for them all the same, in bytes and in
// exchanges, but a runtime whose queues are as long as their tokens does not. So a plan is priced
// as if its queues had `imbalance` times the slots of even routing. It must not run: it would drop.
#pragma once

#include <algorithm>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The busiest queue of a run holds about so many times its even share, once a router is trained
// (docs/moe.md has the measurement).
inline constexpr double kUsualImbalance = 1.25;

// The work of the busiest device over its even share. Queues of one run are filled less evenly than
// the tokens of a micro-batch, so the usual imbalance is taken for even work.
inline double BusiestLoad(double imbalance) { return std::max(1.0, imbalance / kUsualImbalance); }

// True if the op queues tokens: it has groups of experts.
bool HasGroups(const Op& op);

// Requires what AnnotateModel writes. Graphs that bound their queues by themselves stay as they
// are, and so do queues that no devices split. Writes attributes `imbalance` and `load`.
void PriceQueues(double imbalance, Graph* graph);

}  // namespace oneflow
