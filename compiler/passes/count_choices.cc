#include "compiler/passes/count_choices.h"

#include <glog/logging.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/moved_bias.h"

namespace oneflow {
namespace {

constexpr char kCount[] = "count_choices", kSum[] = "add_counts";

bool ChoosesExperts(const Op& op) { return op.kind == "route"; }

absl::Status CheckBias(const Graph& graph, const Op& route,
                       const std::vector<std::vector<Use>>& uses) {
  const TensorId bias = FindMovedBias(route);
  if (bias < 0) return absl::OkStatus();
  const Op& producer = graph.Producer(bias);
  if (!IsVariable(producer)) {
    return InputError(Where(route),
                      "has a bias_rate, and its bias " + producer.name + " is no variable",
                      "give it a variable, or leave bias_rate out");
  }
  if (uses[bias].size() == 1) return absl::OkStatus();
  return InputError(Where(route),
                    "has a bias_rate, and another op reads its bias " + producer.name + ", too",
                    "give each router a bias of its own: its choices alone move it");
}

absl::StatusOr<Op> MakeCount(Graph* graph, const Op& route) {
  Op op = route;
  op.kind = kCount;
  op.name = FreeName(*graph, route.name + ".count");
  op.why = "the update reads what " + route.name + " chose";
  op.recompute.clear();
  op.inputs = {route.outputs[1], route.outputs[2]};
  op.attrs = {{"experts", graph->tensors[route.inputs[0]].shape.dims[2]}};
  op.outputs = {AddTensor(graph, op.name)};
  RETURN_IF_ERROR(InferOutputs(graph, op));
  return op;
}

// The sum of `counts`, made once a step on `stage`; of one count, that count.
absl::StatusOr<TensorId> AddSum(Graph* graph, const std::string& name,
                                const std::vector<TensorId>& counts, int stage) {
  const OpId id = graph->AddOp(kSum, FreeName(*graph, name), counts, {});
  Op& op = graph->ops[id];
  op.phase = Phase::kUpdate;
  op.stage = stage;
  op.scope = name;
  RETURN_IF_ERROR(InferOutputs(graph, op));
  return op.outputs[0];
}

}  // namespace

absl::Status CountChoices(Graph* graph) {
  const std::vector<std::vector<Use>> uses = FindUses(*graph);
  const std::vector<Op> old = graph->ops;
  std::vector<Op> ops;
  for (const Op& op : old) {
    ops.push_back(op);
    if (!ChoosesExperts(op)) continue;
    RETURN_IF_ERROR(CheckBias(*graph, op, uses));
    ASSIGN_OR_RETURN(Op count, MakeCount(graph, op));
    ops.push_back(std::move(count));
  }
  SetOps(graph, std::move(ops));
  return absl::OkStatus();
}

TensorId FindChoiceCount(const Graph& graph, const Op& route) {
  for (const Op& op : graph.ops) {
    if (op.kind == kCount && op.inputs[0] == route.outputs[1]) return op.outputs[0];
  }
  LOG(FATAL) << route.name << ": its choices are not counted";
}

absl::Status SumChoices(Graph* graph) {
  std::map<int, std::vector<TensorId>> on_stage;
  const Tensor* first = nullptr;
  for (const Op& op : graph->ops) {
    if (op.kind != kCount) continue;
    const Tensor& count = graph->tensors[op.outputs[0]];
    if (first == nullptr) first = &count;
    if (count.shape != first->shape) return absl::OkStatus();
    on_stage[op.stage].push_back(op.outputs[0]);
  }
  if (on_stage.empty()) return absl::OkStatus();
  std::vector<TensorId> sums;
  for (const auto& [stage, counts] : on_stage) {
    const std::string name =
        on_stage.size() == 1 ? "choices.sum" : "choices.sum@" + std::to_string(stage);
    ASSIGN_OR_RETURN(const TensorId sum, counts.size() == 1 ? absl::StatusOr<TensorId>(counts[0])
                                                            : AddSum(graph, name, counts, stage));
    sums.push_back(sum);
  }
  ASSIGN_OR_RETURN(const TensorId all,
                   AddSum(graph, "choices", sums, graph->Producer(graph->loss).stage));
  // Whoever reports it has all of it. So the sums of a stage's devices meet in one exchange.
  for (const Mesh::Axis& axis : graph->mesh.axes) graph->tensors[all].constraint[axis.name] = B();
  return absl::OkStatus();
}

TensorId FindChoices(const Graph& graph) {
  TensorId last = -1;
  for (const Op& op : graph.ops) {
    if (op.kind == kSum) last = op.outputs[0];
  }
  return last;
}

}  // namespace oneflow
