#include "compiler/lower/overlap.h"

#include <algorithm>

#include "compiler/graph/rewrite.h"

namespace oneflow {
namespace {

// True if all readers stand in the task of the op itself, on its stage.
std::vector<bool> ReadInItsTask(const Graph& graph) {
  std::vector<bool> so(graph.ops.size(), true);
  for (const Op& reader : graph.ops) {
    for (const TensorId t : reader.inputs) {
      const OpId writer = graph.tensors[t].producer;
      const Op& op = graph.ops[writer];
      so[writer] = so[writer] && reader.kind != "transfer" && reader.stage == op.stage &&
                   reader.phase == op.phase && reader.chunk == op.chunk;
    }
  }
  return so;
}

}  // namespace

std::vector<Lane> ExchangeLanes(const Graph& graph, bool gathers_ahead) {
  std::vector<Lane> lanes(graph.ops.size(), Lane::kCompute);
  std::vector<bool> of_variable(graph.ops.size());  // a variable, what it is cast to, and boxed
  const std::vector<bool> in_its_task = ReadInItsTask(graph);
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    of_variable[id] = IsVariable(op) || op.phase == Phase::kPrepare ||
                      (IsBoxing(op.kind) && of_variable[graph.tensors[op.inputs[0]].producer]);
    if (!IsExchange(op.kind) || op.kind == "transfer") continue;
    if (IsOnceAStep(op.phase)) {
      lanes[id] = Lane::kGradient;
    } else if (!of_variable[id]) {
      lanes[id] = Lane::kCollective;
    } else if (gathers_ahead && in_its_task[id]) {
      const OpId from = graph.tensors[op.inputs[0]].producer;
      const bool there = IsVariable(graph.ops[from]) || graph.ops[from].phase == Phase::kPrepare;
      if (there || lanes[from] == Lane::kGather) lanes[id] = Lane::kGather;
    }
  }
  return lanes;
}

}  // namespace oneflow
