// Removes dropout from programs that do not train: eval, generate and run compute with all units of
// the model. Readers of a dropout, or of a stored_dropout, read its input.
//
//   dropout "drop" of x  ->  nothing: its readers read x. If it is the loss or an output, which
//                            keeps its name: add_n "drop" of x alone.
//
// A stored_dropout whose mask is read, or that is an output of the graph, stays and drops nothing:
// rate 0.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

void RemoveDropout(Graph* graph) {
  std::vector<TensorId> read_instead(graph->tensors.size());
  std::iota(read_instead.begin(), read_instead.end(), 0);
  const std::vector<std::vector<Use>> uses = FindUses(*graph);
  const auto leaves = [graph](TensorId t) {
    const std::vector<TensorId>& outputs = graph->outputs;
    return t == graph->loss || std::find(outputs.begin(), outputs.end(), t) != outputs.end();
  };
  for (Op& op : graph->ops) {
    for (TensorId& t : op.inputs) t = read_instead[t];
    if (!FindOpDef(op)->random) continue;
    const TensorId y = op.outputs[0];
    const TensorId mask = op.outputs.size() > 1 ? op.outputs[1] : -1;
    if (mask >= 0 && (leaves(y) || leaves(mask) || !uses[mask].empty())) {
      op.attrs["rate"] = 0.0;
    } else if (leaves(y)) {
      op.kind = kAddUp;
      op.attrs.clear();
    } else {
      read_instead[y] = op.inputs[0];
    }
  }
}

}  // namespace oneflow
