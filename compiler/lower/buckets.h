// Buckets: exchanges that fire once a step and become one actor. Small exchanges of a stage that do
// the same along the same axes, none of which waits for another, become one exchange of several
// tensors. Its devices meet once, and a link's latency is paid once.
//
// An exchange waits for another also if a kernel or transfer that waits for the other comes before
// it in op order. An exchange that waits for a result of the update, or for another stage, is not
// joined with gradients that can be exchanged while the backward runs.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/lower/lowered.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Returns the ops of lane kGradient, each in one bucket, in an order in which buckets can be
// issued. A bucket of the update takes the position of its last member. One of the prepare phase
// takes that of its first, but comes after everything that it waits for. A bucket of several
// tensors holds at most `bytes` a device.
std::vector<std::vector<OpId>> Buckets(const Graph& graph, const std::vector<Lane>& lanes,
                                       int64_t bytes);

}  // namespace oneflow
