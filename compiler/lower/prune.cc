#include "compiler/lower/prune.h"

#include <utility>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

Graph Prune(const Graph& graph, bool loss, size_t outputs, bool updates) {
  std::vector<bool> wanted(graph.ops.size(), false);
  if (loss && graph.loss >= 0) wanted[graph.tensors[graph.loss].producer] = true;
  for (size_t i = 0; i < outputs; ++i) wanted[graph.tensors[graph.outputs[i]].producer] = true;
  for (size_t i = 0; updates && i < graph.ops.size(); ++i) {
    if (FindOpDef(graph.ops[i])->updates > 0) wanted[i] = true;
  }
  for (size_t i = graph.ops.size(); i-- > 0;) {
    if (!wanted[i]) continue;
    for (TensorId t : graph.ops[i].inputs) wanted[graph.tensors[t].producer] = true;
  }
  Graph kept;
  kept.name = graph.name;
  kept.mesh = graph.mesh;
  std::vector<TensorId> renamed(graph.tensors.size(), -1);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (!wanted[i]) continue;
    Op op = graph.ops[i];
    for (TensorId& t : op.inputs) t = renamed[t];
    for (TensorId& t : op.outputs) {
      Tensor tensor = graph.tensors[t];
      tensor.producer = static_cast<OpId>(kept.ops.size());
      renamed[t] = static_cast<TensorId>(kept.tensors.size());
      t = renamed[t];
      kept.tensors.push_back(std::move(tensor));
    }
    kept.ops.push_back(std::move(op));
  }
  if (loss && graph.loss >= 0) kept.loss = renamed[graph.loss];
  for (size_t i = 0; i < outputs; ++i) kept.outputs.push_back(renamed[graph.outputs[i]]);
  return kept;
}

}  // namespace oneflow
