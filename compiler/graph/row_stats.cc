#include "compiler/graph/row_stats.h"

namespace oneflow {
namespace {

// The row_max `id` and its companions; -1: there are none.
RowStats FindFrom(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  RowStats found{id};
  const Op& max = graph.ops[id];
  for (const Use& use : uses[max.inputs[0]]) {
    const Op& reader = graph.ops[use.op];
    if (use.input != 0 || max.chunk != reader.chunk) continue;
    if (reader.kind == "row_sum_exp" && reader.inputs[1] == max.outputs[0]) found.sum = use.op;
    if (reader.kind == "pick") found.pick = use.op;
  }
  if (found.sum < 0 || found.pick < 0) return {};
  for (const OpId part : {found.max, found.sum, found.pick}) {
    for (const Use& use : uses[graph.ops[part].outputs[0]]) {
      if (use.op != found.sum && use.op <= found.last()) return {};
    }
  }
  return found;
}

}  // namespace

std::vector<RowStats> FindRowStats(const Graph& graph, const std::vector<std::vector<Use>>& uses) {
  std::vector<RowStats> all;
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    if (graph.ops[id].kind != "row_max") continue;
    const RowStats stats = FindFrom(graph, uses, id);
    if (stats.max >= 0) all.push_back(stats);
  }
  return all;
}

}  // namespace oneflow
