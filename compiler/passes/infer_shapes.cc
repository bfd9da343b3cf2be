#include "compiler/passes/infer_shapes.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/op/check_graph.h"

namespace oneflow {

absl::Status CheckAndInferShapes(Graph* graph) {
  RETURN_IF_ERROR(CheckGraph(*graph));
  return InferShapes(graph);
}

}  // namespace oneflow
