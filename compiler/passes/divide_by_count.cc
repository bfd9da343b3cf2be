// Makes the loss of a graph that counts labels a mean.
//
//   mean_nll "loss" (a sum), count_labels "loss.count"  ->  divide "loss.mean", the graph's loss
//
// While training, both numbers first add up over the micro-batches, so the division belongs to the
// update; gradients are divided there, too (add_optimizer.cc). A graph without count_labels stays
// as it is: its loss has a constant scale.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <string>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

TensorId FindLabelCount(const Graph& graph) {
  const auto count = std::find_if(graph.ops.begin(), graph.ops.end(),
                                  [](const Op& op) { return op.kind == "count_labels"; });
  return count == graph.ops.end() ? -1 : count->outputs[0];
}

absl::Status DivideByCount(Graph* graph) {
  const TensorId count = FindLabelCount(*graph);
  if (count < 0 || graph->loss < 0) return absl::OkStatus();
  const bool trains = std::any_of(graph->ops.begin(), graph->ops.end(),
                                  [](const Op& op) { return op.phase == Phase::kUpdate; });
  const Op sum = graph->Producer(graph->loss);
  const std::string wish = graph->tensors[graph->loss].name + ".mean";
  const OpId id = graph->AddOp(kDivide, FreeName(*graph, wish), {graph->loss, count}, {});
  Op& op = graph->ops[id];
  op.phase = trains ? Phase::kUpdate : Phase::kForward;
  op.stage = sum.stage;
  op.chunk = trains ? 0 : sum.chunk;
  op.scope = sum.scope;
  RETURN_IF_ERROR(InferOutputs(graph, op));
  graph->loss = op.outputs[0];
  return absl::OkStatus();
}

}  // namespace oneflow
