// Keeps of a graph what its loss and outputs depend on. Programs differ in what they compute; each
// starts from the same graph and drops the rest.
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// `loss`: keep the loss; `outputs`: keep the first so many outputs. The others are forgotten.
Graph Prune(const Graph& graph, bool loss, size_t outputs);

}  // namespace oneflow
