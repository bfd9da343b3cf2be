// Appends the update of a step, all in Phase::kUpdate. For every logical variable with a gradient,
// in order of first appearance:
//
//   sum_uses      the gradients of its uses, in op order (left out for a single use)
//   sum_squares   once, on the lowest stage that holds it
//   adamw         on each stage that holds it, with its own m and v ("wte/m", "wte@3/m")
//
// and on the stage of the loss one global_norm ("grad_norm") over all sums of squares in variable
// order, which the other stages receive. A gradient passes from the backward phase to the update
// phase by accumulating over the micro-batches, so everything here fires once a step.
#pragma once

#include "absl/status/status.h"
#include "compiler/passes/differentiate.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires placed variables, and the gradients that Differentiate returned for this very graph.
absl::Status AddOptimizer(Graph* graph, const Gradients& gradients);

}  // namespace oneflow
