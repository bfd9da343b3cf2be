#include "compiler/passes/order_update.h"

#include <algorithm>
#include <compare>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"

namespace oneflow {
namespace {

// When an op of the update can begin. Grows along every edge, so a stable sort by it keeps the
// topological order.
struct Readiness {
  // It waits for something that the update computes, which begins when the backward is over.
  bool late = false;
  OpId after = 0;  // the last op of the micro-batches that it waits for
  auto operator<=>(const Readiness&) const = default;
};

Readiness Latest(const Readiness& a, const Readiness& b) {
  return {a.late || b.late, std::max(a.after, b.after)};
}

}  // namespace

void OrderUpdate(Graph* graph) {
  std::vector<Readiness> ready(graph->ops.size());
  std::vector<OpId> update;
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const Op& op = graph->ops[id];
    if (op.phase == Phase::kUpdate) {
      update.push_back(id);
    } else if (op.phase != Phase::kPrepare && !IsVariable(op)) {
      ready[id].after = id;
    }
    if (op.phase != Phase::kUpdate || IsVariable(op)) continue;
    for (const TensorId t : op.inputs) {
      const OpId producer = graph->tensors[t].producer;
      const Op& before = graph->ops[producer];
      ready[id] = Latest(ready[id], ready[producer]);
      const bool computed = !IsExchange(before.kind) && !IsVariable(before);
      if (before.phase == Phase::kUpdate && computed) ready[id].late = true;
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
