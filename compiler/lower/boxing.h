// Boxing ops (IsBoxing) as plan actors: which peers they read and what they do with them.
#pragma once

#include "oneflow_core/graph/graph.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Fills in actor->boxing, bytes_moved and the peers of its only input.
void LowerBoxing(const Graph& graph, const Op& op, proto::Actor* actor);

}  // namespace oneflow
