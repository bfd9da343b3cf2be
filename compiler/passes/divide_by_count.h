// Makes the loss of a graph that counts labels a mean.
//
//   mean_nll "loss" (a sum), count_labels "loss.count"  ->  divide "loss.mean", the graph's loss
//
// While training, both numbers first add up over the micro-batches, so the division belongs to the
// update; gradients are divided there, too (add_optimizer.h). A graph without count_labels stays as
// it is: its loss has a constant scale.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The number of labels that count, f64[]; -1 if the graph does not count them.
TensorId FindLabelCount(const Graph& graph);

// Requires decomposed losses and, if the graph is trained, its update.
absl::Status DivideByCount(Graph* graph);

}  // namespace oneflow
