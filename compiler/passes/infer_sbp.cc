#include "compiler/passes/infer_sbp.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/choice_network.h"
#include "compiler/passes/mesh_part.h"
#include "compiler/passes/sbp_choice.h"
#include "compiler/passes/sbp_constraint.h"
#include "compiler/passes/sbp_labels.h"
#include "compiler/passes/sbp_network.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// All axes are chosen at once where that is solved by tables of so many cells; larger ones take
// longer than they are worth. No op may have more ways to choose among.
constexpr int64_t kJointCells = int64_t{1} << 18;

struct JointChoice {
  SbpLabels labels;
  ChoiceNetwork network;
  Choices best;  // with the bound, also where it is not proved
};

std::vector<int> AxesToChoose(const Mesh& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    if (axis != mesh.stage_axis() && mesh.axes[axis].size > 1) axes.push_back(axis);
  }
  return axes;
}

SbpProblem ProblemOf(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                     const SbpLabels& labels) {
  return {graph, settled, options, labels, ObservedBy(graph)};
}

// The choice on all axes at once; nothing where there is but one, or more than is worth it.
std::optional<JointChoice> ChooseTogether(const Graph& graph, const SbpOptions& options,
                                          const SbpChoice& whole, const std::vector<int>& axes) {
  if (axes.size() < 2) return std::nullopt;
  absl::StatusOr<SbpLabels> labels = SbpLabels::Make(graph, whole, options, axes);
  if (!labels.ok()) return std::nullopt;  // told with the axis where it is found
  for (int unit = 0; unit < labels->size(); ++unit) {
    if (labels->Combinations(unit, static_cast<int>(axes.size())) > kJointCells) {
      return std::nullopt;
    }
  }
  ChoiceNetwork network = SbpNetwork(ProblemOf(graph, whole, options, *labels));
  Choices best = Eliminate(network, kJointCells);
  return JointChoice{*std::move(labels), std::move(network), std::move(best)};
}

absl::StatusOr<SbpChoice> InferOnOneMesh(Graph* graph, const SbpOptions& options) {
  RETURN_IF_ERROR(CheckConstraints(*graph));
  SbpChoice choice = LayWhole(graph);
  const SbpChoice whole = choice;
  const std::vector<int> axes = AxesToChoose(graph->mesh);
  const std::optional<JointChoice> joint = ChooseTogether(*graph, options, choice, axes);
  if (joint && joint->best.proved()) {
    Store(ProblemOf(*graph, whole, options, joint->labels), joint->best.label, graph, &choice);
    for (const int axis : axes) AddNotes(*graph, axis, &choice);
    choice.notes.push_back("all axes together: " + ProofText(joint->best));
    return choice;
  }
  for (const int axis : axes) {
    ASSIGN_OR_RETURN(const SbpLabels labels, SbpLabels::Make(*graph, choice, options, {axis}));
    const SbpProblem problem = ProblemOf(*graph, choice, options, labels);
    const Choices best = Solve(SbpNetwork(problem));
    Store(problem, best.label, graph, &choice);
    AddNotes(*graph, axis, &choice);
    choice.notes.push_back("axis " + graph->mesh.axes[axis].name + ": " + ProofText(best) +
                           (best.proved() ? ", given the axes before it" : ""));
  }
  if (axes.size() < 2) return choice;
  if (!joint) {
    choice.notes.push_back("all axes together: not looked at, an op has too many ways to choose");
    return choice;
  }
  const std::vector<int> label = CompleteLabels(
      joint->network, LabelsOf(ProblemOf(*graph, whole, options, joint->labels), *graph, choice));
  choice.notes.push_back("all axes together: " +
                         ProofText({label, joint->network.CostOf(label), joint->best.bound}));
  return choice;
}

// Chooses on one of several meshes, and writes what was chosen into the whole graph.
absl::Status InferOnPart(const std::optional<SubMesh>& sub_mesh, const SbpOptions& options,
                         Graph* graph, SbpChoice* choice) {
  MeshPart part = PartOnMesh(*graph, sub_mesh, options.mirrors);
  SbpOptions own = options;
  own.mirrors = part.mirrors;
  ASSIGN_OR_RETURN(SbpChoice chosen, InferOnOneMesh(&part.graph, own));
  for (size_t i = 0; i < part.op.size(); ++i) {
    if (part.op[i] < 0) continue;
    choice->op_inputs[part.op[i]] = std::move(chosen.op_inputs[i]);
    for (const TensorId t : part.graph.ops[i].outputs) {
      graph->tensors[part.tensor[t]].sbp = part.graph.tensors[t].sbp;
    }
  }
  for (const std::string& note : chosen.notes) {
    choice->notes.push_back(sub_mesh ? "on " + ToString(*sub_mesh) + ": " + note : note);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SbpChoice> InferSbp(Graph* graph, const SbpOptions& options) {
  const std::vector<std::optional<SubMesh>> meshes = MeshesOf(*graph);
  if (meshes.size() == 1) return InferOnOneMesh(graph, options);
  SbpChoice choice;
  choice.op_inputs.resize(graph->ops.size());
  for (const std::optional<SubMesh>& sub_mesh : meshes) {
    RETURN_IF_ERROR(InferOnPart(sub_mesh, options, graph, &choice));
  }
  return choice;
}

}  // namespace oneflow
