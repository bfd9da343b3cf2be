// Writes into a graph the parts of variables that rest in the host's memory: the attribute `host`
// of each variable that has states, "states", "weights" and "update" joined by commas. The user's
// attributes win.
#pragma once

#include "oneflow_core/graph/graph.h"
#include "oneflow_core/model/offload.h"

namespace oneflow {

void AnnotateOffload(const Offload& offload, Graph* graph);

}  // namespace oneflow
