#include "compiler/passes/remove_dropout.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace oneflow {

void RemoveDropout(Graph* graph) {
  std::vector<TensorId> read_instead(graph->tensors.size());
  std::iota(read_instead.begin(), read_instead.end(), 0);
  for (Op& op : graph->ops) {
    for (TensorId& t : op.inputs) t = read_instead[t];
    if (op.kind == "causal_attention") op.attrs.erase("dropout");
    if (op.kind != "dropout") continue;
    const TensorId y = op.outputs[0];
    const std::vector<TensorId>& outputs = graph->outputs;
    if (y == graph->loss || std::find(outputs.begin(), outputs.end(), y) != outputs.end()) {
      op.kind = "add_n";
      op.attrs.clear();
    } else {
      read_instead[y] = op.inputs[0];
    }
  }
}

}  // namespace oneflow
