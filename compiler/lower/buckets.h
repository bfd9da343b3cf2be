// Which exchanges of once a step become one actor. Small ones of a stage that do the same along the
// same axes, none of which waits for another, are one exchange of several tensors: its devices meet
// once, and a link's latency is paid once.
//
// An exchange waits for another also where a kernel or transfer on its way only stands behind one
// that does. What waits for something that the update computes, or another stage sends, is not
// joined with gradients that can go while the backward runs.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/lower/lowered.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The ops of lane kGradient, each in one bucket, in an order in which they can be issued: a bucket
// of the update comes where its last member would, one of what is prepared where its first would,
// but behind all that it waits for. A bucket of several tensors holds at most `bytes` a device.
std::vector<std::vector<OpId>> Buckets(const Graph& graph, const std::vector<Lane>& lanes,
                                       int64_t bytes);

}  // namespace oneflow
