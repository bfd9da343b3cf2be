// Compares what two graphs compute. Internal to this folder.
#pragma once

#include <string>

#include "proto/graph.pb.h"

namespace oneflow {

// The first op in which two graphs differ: "h.0.mlp.gelu: it is a silu there, and a gelu here".
// Empty if they compute the same. Initial values, stages, layouts and recomputation do not matter.
std::string FindDifference(const proto::Graph& there, const proto::Graph& here);

}  // namespace oneflow
