// Counts the choices that the routers of a mixture of experts make in a step that trains.
//
//   route "r"  ->  route "r", count_choices "r.count": f64[E + 1], of a micro-batch; it adds up
//
// Only the update reads the count: the rule of the router's bias (add_optimizer.cc), and the sum
// over all routers, which the stage of the loss reports. Choices are whole numbers, so the sums are
// exact, and the same under any mesh and schedule.
#include "compiler/passes/passes.h"

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
  std::vector<TensorId> counts;
  for (const Op& op : graph->ops) {
    if (op.kind != kCount) continue;
    counts.push_back(op.outputs[0]);
    if (graph->tensors[counts.back()].shape != graph->tensors[counts[0]].shape) {
      return absl::OkStatus();
    }
  }
  if (counts.empty()) return absl::OkStatus();
  const int stage = graph->Producer(graph->loss).stage;
  if (counts.size() > 1) {
    ASSIGN_OR_RETURN(const TensorId sum, AddSum(graph, "choices.sum", counts, stage));
    counts = {sum};
  }
  ASSIGN_OR_RETURN(const TensorId all, AddSum(graph, "choices", counts, stage));
  // Whoever reports it has all of it. So the sums of a stage's devices meet in one exchange.
  for (const Mesh::Axis& axis : graph->mesh.axes) graph->tensors[all].constraint[axis.name] = B();
  return absl::OkStatus();
}

void SumChoicesByStage(Graph* graph, SbpChoice* choice) {
  const TensorId all = FindChoices(*graph);
  if (all < 0) return;
  const OpId last = graph->tensors[all].producer;
  const OpId sum = graph->tensors[graph->ops[last].inputs[0]].producer;
  const Op joined = graph->ops[sum];
  if (joined.kind != kSum) return;
  std::map<int, std::vector<size_t>> on_stage;  // inputs of the sum
  for (size_t i = 0; i < joined.inputs.size(); ++i) {
    on_stage[graph->Producer(joined.inputs[i]).stage].push_back(i);
  }
  if (on_stage.size() < 2) return;
  std::vector<Op> sums;
  std::vector<std::vector<NdSbp>> needs;
  for (const auto& [stage, inputs] : on_stage) {
    Op op = joined;
    op.name = FreeName(*graph, joined.name + "@" + std::to_string(stage));
    op.stage = stage;
    op.inputs.clear();
    needs.emplace_back();
    for (const size_t i : inputs) {
      op.inputs.push_back(joined.inputs[i]);
      needs.back().push_back(choice->op_inputs[sum][i]);
    }
    if (!sums.empty()) {
      Tensor tensor = graph->tensors[joined.outputs[0]];
      graph->tensors.push_back(std::move(tensor));
      op.outputs = {static_cast<TensorId>(graph->tensors.size()) - 1};
    }
    graph->tensors[op.outputs[0]].name = op.name;
    sums.push_back(std::move(op));
  }
  std::vector<Op> ops = std::move(graph->ops);
  ops[last].inputs.clear();
  for (const Op& op : sums) ops[last].inputs.push_back(op.outputs[0]);
  choice->op_inputs[last].assign(sums.size(), choice->op_inputs[last][0]);
  ops.erase(ops.begin() + sum);
  ops.insert(ops.begin() + sum, sums.begin(), sums.end());
  choice->op_inputs.erase(choice->op_inputs.begin() + sum);
  choice->op_inputs.insert(choice->op_inputs.begin() + sum, needs.begin(), needs.end());
  SetOps(graph, std::move(ops));
}

TensorId FindChoices(const Graph& graph) {
  TensorId last = -1;
  for (const Op& op : graph.ops) {
    if (op.kind == kSum) last = op.outputs[0];
  }
  return last;
}

}  // namespace oneflow
