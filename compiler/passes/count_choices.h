// Counts the choices that the routers of a mixture of experts make in a step that trains.
//
//   route "r"  ->  route "r", count_choices "r.count": f64[E + 1], of a micro-batch; it adds up
//
// Only the update reads the count: the rule of the router's bias (add_optimizer.h), and the sum
// over all routers, which the stage of the loss reports. Choices are whole numbers, so the sums are
// exact, and the same under any mesh and schedule.
#pragma once

#include "absl/status/status.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires placed variables and no gradients yet. Errors: a bias with a `bias_rate` that is no
// variable, or that another op also reads: a rule moves it by the choices of one router.
absl::Status CountChoices(Graph* graph);

// Returns the count of the choices of `route`. Requires counted choices.
TensorId FindChoiceCount(const Graph& graph, const Op& route);

// Appends the sum over all routers to the update, on the stage of the loss: "choices.sum" adds them
// up, and "choices" is what all devices have together. Without routers, or if they differ in the
// number of their experts, nothing is summed. Requires a graph with a loss and its update.
absl::Status SumChoices(Graph* graph);

// Has each stage add up its own, so that it sends one sum: "choices.sum" becomes "choices.sum@0",
// "choices.sum@1", ..., in its layout. Runs after infer_sbp, whose choice must not depend on
// stages, and before boxing. Extends `choice` to the new ops.
void SumChoicesByStage(Graph* graph, SbpChoice* choice);

// Returns the tensor that SumChoices appended last; -1 if nothing.
TensorId FindChoices(const Graph& graph);

}  // namespace oneflow
