#include "compiler/sbp/sbp_choice.h"

#include <algorithm>
#include <cstdio>

#include "compiler/graph/rewrite.h"
#include "compiler/sbp/sbp_constraint.h"

namespace oneflow {
namespace {

// True if the op has this row's layouts on axes()[k].
bool Matches(const SbpProblem& problem, OpId id, int k, const Signature& row, const Graph& graph,
             const SbpChoice& choice) {
  const Op& op = graph.ops[id];
  const int axis = problem.space.axes()[k];
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!(row.in[i] == choice.op_inputs[id][i][axis])) return false;
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (!(row.out[i] == graph.tensors[op.outputs[i]].sbp[axis])) return false;
  }
  return true;
}

}  // namespace

std::vector<int> AxesToChoose(const Mesh& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    if (axis != mesh.stage_axis() && mesh.axes[axis].size > 1) axes.push_back(axis);
  }
  return axes;
}

SbpChoice ReplicateAll(Graph* graph) {
  const NdSbp replicated(graph->mesh.axes.size(), B());
  SbpChoice choice;
  for (Tensor& tensor : graph->tensors) tensor.sbp = replicated;
  for (const Op& op : graph->ops) choice.op_inputs.emplace_back(op.inputs.size(), replicated);
  return choice;
}

void Store(const SbpProblem& problem, const std::vector<int>& assignment, Graph* graph,
           SbpChoice* choice) {
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const Op& op = graph->ops[id];
    for (int k = 0; k < static_cast<int>(problem.space.axes().size()); ++k) {
      const int axis = problem.space.axes()[k];
      const int variable = problem.Variable(problem.space.GroupIndex(id), k);
      const Signature& row = problem.space.Row(id, k, assignment[variable]);
      for (size_t i = 0; i < op.inputs.size(); ++i) choice->op_inputs[id][i][axis] = row.in[i];
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        graph->tensors[op.outputs[i]].sbp[axis] = row.out[i];
      }
    }
  }
}

std::vector<int> FindAssignment(const SbpProblem& problem, const Graph& graph,
                                const SbpChoice& choice) {
  const ChoiceSpace& space = problem.space;
  std::vector<int> chosen;
  for (int group = 0; group < space.size(); ++group) {
    for (int k = 0; k < static_cast<int>(space.axes().size()); ++k) {
      const auto all_match = [&](int option) {
        for (const OpId op : space.ops(group)) {
          if (!Matches(problem, op, k, space.Row(op, k, option), graph, choice)) return false;
        }
        return true;
      };
      int option = 0;
      while (option + 1 < space.option_count(group, k) && !all_match(option)) ++option;
      chosen.push_back(option);
    }
  }
  return chosen;
}

void AddNotes(const Graph& graph, int axis, SbpChoice* choice) {
  const std::string& name = graph.mesh.axes[axis].name;
  int split = 0, forward = 0;
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kForward || op.outputs.empty()) continue;
    const Tensor& tensor = graph.tensors[op.outputs[0]];
    const Sbp sbp = tensor.sbp[axis];
    ++forward;
    if (!sbp.broadcast()) ++split;
    const bool asked = ConstraintOn(tensor, graph.mesh, axis).has_value();
    if (sbp.broadcast() || !(IsVariable(op) || sbp.partial() || asked)) continue;
    choice->notes.push_back(tensor.name + " is " + ToString(sbp) + " on " + name +
                            (tensor.usual.contains(name) ? ": the default says so"
                             : asked                     ? ": the graph says so"
                             : IsVariable(op)            ? ": its readers want it so"
                                              : ": each device has a part of the sum or maximum"));
  }
  choice->notes.push_back("axis " + name + ": " + std::to_string(split) + " of " +
                          std::to_string(forward) +
                          " forward ops put out less than the full tensor");
}

std::string ProofText(const SbpCosts& costs, const Choices& best, const SbpOptions& options) {
  const Cost sum = best.cost - costs.network.EvaluateFrom(costs.first_mirror, best.assignment);
  // Charges for unmirrored gradients only raise the costs of other layouts, so the proof stands.
  const Cost gain = std::max<Cost>(0, sum - best.bound);
  char least[64] = "none has";
  if (gain > 0) {
    std::snprintf(least, sizeof(least), "another could have, by at most %.2g %%,",
                  100 * std::min(1.0, static_cast<double>(gain) / static_cast<double>(sum)));
  }
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.9g",
                1e3 * static_cast<double>(sum) / costs.costs_a_second);
  const std::string among = options.mirrors.empty() ? "" : " whose gradients mirror their tensors";
  const std::string basis = options.cluster.level_size() > 0
                                ? "the cluster's costs"
                                : "costs that stand in for an unknown cluster's";
  return "of all layouts" + among + " " + least +
         " a smaller sum of the seconds of kernels and exchanges, one after another, by " + basis +
         ": " + seconds + " ms a step";
}

}  // namespace oneflow
