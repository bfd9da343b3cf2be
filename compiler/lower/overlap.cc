#include "compiler/lower/overlap.h"

#include "compiler/graph/rewrite.h"

namespace oneflow {
std::vector<Lane> ExchangeLanes(const Graph& graph) {
  std::vector<Lane> lanes(graph.ops.size(), Lane::kCompute);
  std::vector<bool> of_variable(graph.ops.size());  // a variable, what it is cast to, and boxed
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    of_variable[id] = IsVariable(op) || op.phase == Phase::kPrepare ||
                      (IsBoxing(op.kind) && of_variable[graph.tensors[op.inputs[0]].producer]);
    if (!IsExchange(op.kind) || op.kind == "transfer") continue;
    if (IsOnceAStep(op.phase)) {
      lanes[id] = Lane::kGradient;
    } else if (!of_variable[id]) {
      lanes[id] = Lane::kCollective;
    }
  }
  return lanes;
}

}  // namespace oneflow
