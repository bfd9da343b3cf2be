// Makes the losses of routers means over a step where its labels are counted.
//
//   count_ahead -> counts (f64[parts], S(0))    for each stage with routers, once a step
//   sum_in_order(counts) -> count (f64[])       before its first micro-batch
//   route_grad(..., count)
//
// There the update divides gradients by the number of labels that count (add_optimizer.h). What
// routers' losses add to them is no sum over labels, and enters the residual stream, so it cannot
// be told apart later: route_grad multiplies it by that number, which the data give before the
// first micro-batch. Each data part counts its own share of the step's samples, so the counts are a
// function of the data alone, exact, and the same at any degree.
#pragma once

#include "absl/status/status.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Runs after infer_sbp, so that layouts do not depend on stages, and before boxing. Extends
// `choice` to the new ops. Errors: labels that are counted and come from no data.
absl::Status ScaleRouterLosses(Graph* graph, SbpChoice* choice);

}  // namespace oneflow
