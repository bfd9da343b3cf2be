// Removes losses that act through the gradient alone from programs that do not train.
//
//   softmax_cross_entropy "mtp.loss" with gradient_only, add_n "loss.all" of "loss" and "mtp.loss"
//     ->  readers of "loss.all", and the graph's loss, are "loss"
//
// What made the hidden loss is left without readers: Prune drops it.
#include "compiler/passes/passes.h"

#include <numeric>
#include <vector>

namespace oneflow {

void RemoveHiddenLosses(Graph* graph) {
  std::vector<TensorId> read_instead(graph->tensors.size());
  std::iota(read_instead.begin(), read_instead.end(), 0);
  std::vector<bool> hidden(graph->tensors.size(), false);
  for (Op& op : graph->ops) {
    for (TensorId& t : op.inputs) t = read_instead[t];
    if (AttrBool(op, "gradient_only")) hidden[op.outputs[0]] = true;
    if (op.inputs.size() == 2 && hidden[op.inputs[1]]) {
      read_instead[op.outputs[0]] = op.inputs[0];
    }
  }
  if (graph->loss >= 0) graph->loss = read_instead[graph->loss];
}

}  // namespace oneflow
