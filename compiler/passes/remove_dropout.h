// Removes dropout from programs that do not train: eval, generate and run compute with all units of
// the model. Readers of a dropout, or of a stored_dropout, read its input.
//
//   dropout "drop" of x  ->  nothing: its readers read x. If it is the loss or an output, which
//                            keeps its name: add_n "drop" of x alone.
//
// A stored_dropout whose mask is read, or that is an output of the graph, stays and drops nothing:
// rate 0.
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Dropouts that are left without readers stay in the graph: Prune drops them.
void RemoveDropout(Graph* graph);

}  // namespace oneflow
