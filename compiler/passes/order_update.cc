#include "compiler/passes/order_update.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/passes/rewrite.h"

namespace oneflow {

void OrderUpdate(Graph* graph) {
  // By op: the place of the last op of the micro-batches that it waits for. Grows along every edge,
  // so a stable sort by it keeps the topological order.
  std::vector<OpId> ready(graph->ops.size(), 0);
  std::vector<OpId> update;
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const Op& op = graph->ops[id];
    for (const TensorId t : op.inputs) ready[id] = std::max(ready[id], ready[graph->tensors[t].producer]);
    if (op.phase == Phase::kForward || op.phase == Phase::kBackward) {
      if (!IsVariable(op)) ready[id] = id;
    } else if (op.phase == Phase::kUpdate) {
      update.push_back(id);
    }
  }
  std::vector<OpId> sorted = update;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](OpId a, OpId b) { return ready[a] < ready[b]; });
  std::vector<Op> ops = graph->ops;
  for (size_t i = 0; i < update.size(); ++i) ops[update[i]] = graph->ops[sorted[i]];
  SetOps(graph, std::move(ops));
}

}  // namespace oneflow
