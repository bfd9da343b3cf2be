// Gives every stage the variables and inputs that it uses. A variable used on k > 1 stages becomes
// one op on each ("wte" on the lowest, "wte@3" on stage 3). Each is updated on its stage, and each
// stage loads its own tokens, so neither ever crosses a stage.
//
// Guarantees: every op of kind "variable" has the attribute `variable` (its logical name), every op
// of kind "input" the attribute `input`; both stand on the stage of all their users.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

bool IsSource(const Op& op) { return op.kind == "variable" || op.kind == "input"; }

absl::Status CheckStages(const Graph& graph) {
  const int stages = graph.mesh.stages();
  for (const Op& op : graph.ops) {
    if (op.stage < 0 || op.stage >= stages) {
      return InputError(Where(op),
                        "is on stage " + std::to_string(op.stage) + " but the mesh has " +
                            std::to_string(stages) + (stages == 1 ? " stage" : " stages"),
                        "give the mesh an axis pipe of that many stages, or change `stage`");
    }
    for (TensorId t : op.inputs) {
      const Op& producer = graph.Producer(t);
      if (IsSource(producer) ||
          std::pair(producer.chunk, producer.stage) <= std::pair(op.chunk, op.stage)) {
        continue;
      }
      return InputError(Where(op),
                        "is on stage " + std::to_string(op.stage) + " but reads " + producer.name +
                            " of the later stage " + std::to_string(producer.stage),
                        "activations flow from lower to higher stages only");
    }
  }
  return absl::OkStatus();
}

// The op of `source` on `stage`, with a tensor of its own.
Op MakeReplica(Graph* graph, const Op& source, int stage, int chunk) {
  Op op = source;
  op.name = FreeName(*graph, source.name + "@" + std::to_string(stage));
  op.stage = stage;
  op.chunk = chunk;
  Tensor tensor = graph->tensors[source.outputs[0]];
  tensor.name = op.name;
  op.outputs = {static_cast<TensorId>(graph->tensors.size())};
  graph->tensors.push_back(std::move(tensor));
  return op;
}

}  // namespace

absl::Status PlaceVariables(Graph* graph) {
  RETURN_IF_ERROR(CheckStages(*graph));
  const std::vector<std::vector<Use>> uses = FindUses(*graph);
  std::vector<Op> ops;
  std::map<std::pair<TensorId, int>, TensorId> on_stage;  // (source tensor, stage) -> its replica
  for (Op op : graph->ops) {
    if (!IsSource(op)) {
      for (TensorId& t : op.inputs) {
        if (auto it = on_stage.find({t, op.stage}); it != on_stage.end()) t = it->second;
      }
      ops.push_back(std::move(op));
      continue;
    }
    op.attrs.emplace(op.kind, op.name);
    std::map<int, int> first_chunk;  // stage -> its first chunk that reads
    for (const Use& use : uses[op.outputs[0]]) {
      const Op& reader = graph->ops[use.op];
      const auto [entry, fresh] = first_chunk.emplace(reader.stage, reader.chunk);
      entry->second = std::min(entry->second, reader.chunk);
    }
    if (first_chunk.empty()) first_chunk.emplace(op.stage, op.chunk);
    std::tie(op.stage, op.chunk) = *first_chunk.begin();
    ops.push_back(op);
    first_chunk.erase(first_chunk.begin());
    for (const auto& [stage, chunk] : first_chunk) {
      ops.push_back(MakeReplica(graph, op, stage, chunk));
      on_stage[{op.outputs[0], stage}] = ops.back().outputs[0];
    }
  }
  SetOps(graph, std::move(ops));
  return absl::OkStatus();
}

}  // namespace oneflow
