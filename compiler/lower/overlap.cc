#include "compiler/lower/overlap.h"

#include <algorithm>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// True if all readers stand in the task of the op itself, on its stage.
std::vector<bool> ReadInItsTask(const Graph& graph) {
  std::vector<bool> so(graph.ops.size(), true);
  for (const Op& reader : graph.ops) {
    for (const TensorId t : reader.inputs) {
      const OpId writer = graph.tensors[t].producer;
      const Op& op = graph.ops[writer];
      so[writer] = so[writer] && !IsTransfer(reader.kind) && reader.stage == op.stage &&
                   reader.phase == op.phase && reader.chunk == op.chunk;
    }
  }
  return so;
}

// By op: an exchange that reduces a gradient of a weight as a micro-batch ends. Its output goes to
// such exchanges alone, or to the op of the backward that adds it up for the update, maybe by way
// of local boxing: a part of it is taken, or zeros are put around it.
std::vector<bool> FindReductions(const Graph& graph) {
  const std::vector<std::vector<Use>> uses = FindUses(graph);
  const auto all = [&](const Op& op, const auto& is) {
    bool any = false;
    for (const TensorId t : op.outputs) {
      for (const Use& use : uses[t]) {
        if (!is(use.op)) return false;
        any = true;
      }
    }
    return any;
  };
  std::vector<bool> reduces(graph.ops.size()), adds_up(graph.ops.size());
  for (auto id = static_cast<OpId>(graph.ops.size()) - 1; id >= 0; --id) {
    const Op& op = graph.ops[id];
    if (op.phase != Phase::kBackward || IsTransfer(op.kind)) continue;
    if (IsExchange(op.kind)) {
      reduces[id] = all(op, [&](OpId reader) { return reduces[reader] || adds_up[reader]; });
    } else if (IsBoxing(op.kind)) {
      adds_up[id] = all(op, [&](OpId reader) { return adds_up[reader]; });
    } else if (op.kind == kAddUp && op.inputs.size() == 1) {
      adds_up[id] = all(op, [&](OpId last) { return graph.ops[last].phase == Phase::kUpdate; });
    }
  }
  return reduces;
}

// By op: a cast of a variable for one use, whose output goes to gathers that may run ahead alone.
std::vector<bool> FindCastsAhead(const Graph& graph, const std::vector<bool>& in_its_task) {
  const std::vector<std::vector<Use>> uses = FindUses(graph);
  std::vector<bool> ahead(graph.ops.size());
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    if (!CastsForUse(graph, graph.ops[id]) || !in_its_task[id]) continue;
    const std::vector<Use>& readers = uses[graph.ops[id].outputs[0]];
    ahead[id] =
        !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](const Use& use) {
          return IsExchange(graph.ops[use.op].kind) && in_its_task[use.op];
        });
  }
  return ahead;
}

}  // namespace

std::vector<Lane> ExchangeLanes(const Graph& graph, bool gathers_ahead) {
  std::vector<Lane> lanes(graph.ops.size(), Lane::kCompute);
  std::vector<bool> of_variable(graph.ops.size());  // a variable, what it is cast to, and boxed
  const std::vector<bool> in_its_task = ReadInItsTask(graph), reduces = FindReductions(graph),
                          casts_ahead = FindCastsAhead(graph, in_its_task);
  for (size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    of_variable[id] = IsVariable(op) || op.phase == Phase::kPrepare || CastsForUse(graph, op) ||
                      (IsBoxing(op.kind) && of_variable[graph.tensors[op.inputs[0]].producer]);
    if (gathers_ahead && casts_ahead[id]) lanes[id] = Lane::kGather;
    if (!IsCollective(op.kind)) continue;
    if (IsOnceAStep(op.phase)) {
      lanes[id] = Lane::kGradient;
    } else if (!of_variable[id]) {
      lanes[id] = reduces[id] ? Lane::kReduction : Lane::kCollective;
    } else if (gathers_ahead && in_its_task[id]) {
      const OpId from = graph.tensors[op.inputs[0]].producer;
      const bool there = IsVariable(graph.ops[from]) || graph.ops[from].phase == Phase::kPrepare;
      if (there || lanes[from] == Lane::kGather) lanes[id] = Lane::kGather;
    }
  }
  return lanes;
}

}  // namespace oneflow
