#include "compiler/lower/overlap.h"

#include "compiler/passes/boxing_primitive.h"
#include "compiler/passes/rewrite.h"

namespace oneflow {
namespace {

bool MovesBetweenDevices(const Graph& graph, const Op& op) {
  if (!IsBoxing(op.kind) || op.kind == "transfer") return false;
  const NdSbp &from = graph.tensors[op.inputs[0]].sbp, &to = graph.tensors[op.outputs[0]].sbp;
  return !PrimitiveBetween(graph.mesh, from, to).along.empty();
}

}  // namespace

std::vector<Lane> ExchangeLanes(const Graph& graph) {
  std::vector<Lane> lanes(graph.ops.size(), Lane::kCompute);
  std::vector<bool> of_variable(graph.ops.size());  // a variable, what it is cast to, and boxed
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    of_variable[id] = IsVariable(op) || op.phase == Phase::kPrepare ||
                      (IsBoxing(op.kind) && of_variable[graph.tensors[op.inputs[0]].producer]);
    if (!MovesBetweenDevices(graph, op)) continue;
    if (IsOnceAStep(op.phase)) {
      lanes[id] = Lane::kGradient;
    } else if (!of_variable[id]) {
      lanes[id] = Lane::kCollective;
    }
  }
  return lanes;
}

}  // namespace oneflow
