// Orders the ops of the update as the backward makes the gradients that they read. Gradients are
// finished from the last layer to the first, while the update was written from the first to the
// last. So a gradient's exchange comes when it can begin, and its readers come next. Exchanges that
// wait for kernels of the update, such as those of sums of squares, stand together. No kernel
// between two of them waits for the first, so they can become one (lower/buckets.h).
#include "compiler/passes/passes.h"

#include <algorithm>
#include <compare>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// When an op of the update can begin. Grows along every edge, so a stable sort by it keeps the
// topological order.
struct Readiness {
  // How often the longest way to it goes from kernels of the update, which begins when the backward
  // is over, to exchanges and back. Exchanges of as many turns stand together: no kernel between
  // them waits for one of them, so they can become one (buckets.h).
  int turns = 0;
  OpId after = 0;  // the last op of the micro-batches that it waits for
  auto operator<=>(const Readiness&) const = default;
};

Readiness Latest(const Readiness& a, const Readiness& b) {
  return {std::max(a.turns, b.turns), std::max(a.after, b.after)};
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
      Readiness behind = ready[producer];
      if (before.phase == Phase::kUpdate && !IsVariable(before)) {
        // To read a gradient is no turn: its exchange did not wait for the update.
        const bool turns = IsExchange(op.kind) ? !IsExchange(before.kind)
                                               : IsExchange(before.kind) && behind.turns > 0;
        behind.turns += turns ? 1 : 0;
      }
      ready[id] = Latest(ready[id], behind);
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
