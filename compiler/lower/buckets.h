// Buckets: several exchanges that fire once a step and become one actor. Small exchanges of a stage
// that do the same along the same axes, none of which waits for another, become one exchange of
// several tensors: its devices meet once, and a link's latency is paid once.
//
// An exchange also waits for another if a kernel or a transfer between the two merely comes after
// one that waits. An exchange that waits for a result of the update, or for another stage, is not
// joined with gradients that can be exchanged while the backward runs.
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
