// Keeps the ops of a graph that its loss and outputs depend on. Programs compute different things;
// each starts from the same graph and drops the rest.
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// `loss`: keeps the loss. `outputs`: keeps the first so many outputs. The graph no longer names the
// others. `updates`: keeps the ops that update a variable.
Graph Prune(const Graph& graph, bool loss, size_t outputs, bool updates = false);

}  // namespace oneflow
