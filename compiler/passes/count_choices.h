// Counts what the routers of a mixture of experts choose in a step that trains.
//
//   route "r"  ->  route "r", count_choices "r.count": f64[E + 1], of a micro-batch; it adds up
//
// The count is read in the update alone: by the rule of the router's bias (add_optimizer.h), and by
// the sum over all routers, which the stage of the loss reports. Choices are whole numbers, so the
// sums are exact, and the same under any mesh and schedule.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Before gradients are added, of placed variables. Errors: a bias with a `bias_rate` that is no
// variable, or is read by another op, too: a rule moves it by the choices of one router.
absl::Status CountChoices(Graph* graph);

// The count of the choices of `route`, of a graph in which they are counted.
TensorId FindChoiceCount(const Graph& graph, const Op& route);

// Appends the sum over all routers to the update: add_counts on each stage, whose sums over the
// devices the stage of the loss adds up ("choices"). Nothing is summed without routers, or where
// they differ in the number of their experts. Of a graph with a loss and its update.
absl::Status SumChoices(Graph* graph);

// What SumChoices appended last; -1 if nothing.
TensorId FindChoices(const Graph& graph);

}  // namespace oneflow
