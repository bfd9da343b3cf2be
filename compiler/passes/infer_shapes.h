// Checks the ops against their definitions and infers all shapes and dtypes: the pass around
// oneflow_core/op/check_graph.h.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires bound batch dimensions. After it, ops have all the outputs of their kind.
absl::Status CheckAndInferShapes(Graph* graph);

}  // namespace oneflow
