// Checks the ops against their definitions and infers all shapes and dtypes: the pass around
// oneflow_core/op/check_graph.h.
#include "compiler/passes/passes.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/op/check_graph.h"

namespace oneflow {

absl::Status CheckAndInferShapes(Graph* graph) {
  RETURN_IF_ERROR(CheckGraph(*graph));
  return InferShapes(graph);
}

}  // namespace oneflow
