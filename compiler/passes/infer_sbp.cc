#include "compiler/passes/infer_sbp.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/passes/choice_network.h"
#include "compiler/passes/mesh_part.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/sbp_constraint.h"
#include "compiler/passes/sbp_labels.h"
#include "compiler/passes/sbp_network.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// All axes are chosen at once where that is solved by tables of so many cells, over units of so
// many labels; larger ones take longer than they are worth.
constexpr int64_t kJointCells = int64_t{1} << 18;
constexpr int kJointLabels = 64;

struct JointChoice {
  SbpLabels units;
  ChoiceNetwork network;
  Choices best;  // with the bound, also where it is not proved
};

void Store(const SbpLabels& units, const std::vector<int>& label, Graph* graph, SbpChoice* choice) {
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const Op& op = graph->ops[id];
    for (int k = 0; k < static_cast<int>(units.axes().size()); ++k) {
      const int axis = units.axes()[k];
      const Signature& row = units.Row(id, label[units.UnitOf(id)], k);
      for (size_t i = 0; i < op.inputs.size(); ++i) choice->op_inputs[id][i][axis] = row.in[i];
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        graph->tensors[op.outputs[i]].sbp[axis] = row.out[i];
      }
    }
  }
}

// For the user's own variables that do not lie whole, and ops whose result is a partial value.
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
                            (asked            ? ": the graph says so"
                             : IsVariable(op) ? ": its readers want it so"
                                              : ": each device has a part of the sum or maximum"));
  }
  choice->notes.push_back("axis " + name + ": " + std::to_string(split) + " of " +
                          std::to_string(forward) + " forward ops put out less than the whole");
}

// "no other layout takes less"; or by how much another could.
std::string ProofText(const Choices& best, const std::string& given) {
  if (best.proved()) return "no other layout takes less time" + given;
  const double share = static_cast<double>(best.cost - best.bound) / static_cast<double>(best.cost);
  char text[96];
  std::snprintf(text, sizeof(text), "another layout could take at most %.2g %% less time",
                100 * share);
  return text;
}

std::vector<int> AxesToChoose(const Mesh& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    if (axis != mesh.stage_axis() && mesh.axes[axis].size > 1) axes.push_back(axis);
  }
  return axes;
}

// The choice on all axes at once; nothing where there is but one, or more than is worth it.
std::optional<JointChoice> ChooseTogether(const Graph& graph, const SbpOptions& options,
                                          const SbpChoice& whole, const std::vector<int>& axes) {
  if (axes.size() < 2) return std::nullopt;
  absl::StatusOr<SbpLabels> units = SbpLabels::Make(graph, whole, options, axes);
  if (!units.ok()) return std::nullopt;  // told with the axis where it is found
  for (int unit = 0; unit < units->size(); ++unit) {
    if (units->labels(unit) > kJointLabels) return std::nullopt;
  }
  ChoiceNetwork network = SbpNetwork(graph, whole, options, *units);
  Choices best = Eliminate(network, kJointCells);
  return JointChoice{*std::move(units), std::move(network), std::move(best)};
}

// The label of each unit that stands for what was chosen on one axis after the other.
std::vector<int> LabelsOf(const Graph& graph, const SbpLabels& units, const SbpChoice& choice) {
  std::vector<int> label(units.size(), 0);
  const auto stands = [&](OpId id, int l, int k) {
    const Op& op = graph.ops[id];
    const Signature& row = units.Row(id, l, k);
    const int axis = units.axes()[k];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!(row.in[i] == choice.op_inputs[id][i][axis])) return false;
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (!(row.out[i] == graph.tensors[op.outputs[i]].sbp[axis])) return false;
    }
    return true;
  };
  for (int unit = 0; unit < units.size(); ++unit) {
    const auto all_stand = [&](int l) {
      for (const OpId op : units.OpsOf(unit)) {
        for (int k = 0; k < static_cast<int>(units.axes().size()); ++k) {
          if (!stands(op, l, k)) return false;
        }
      }
      return true;
    };
    while (label[unit] + 1 < units.labels(unit) && !all_stand(label[unit])) ++label[unit];
  }
  return label;
}

// By how much all axes together could take less than one after the other.
std::string JointNote(const Graph& graph, const JointChoice& joint, const SbpChoice& choice) {
  const std::vector<int> label =
      CompleteLabels(joint.network, LabelsOf(graph, joint.units, choice));
  return "all axes together: " +
         ProofText({label, joint.network.CostOf(label), joint.best.bound}, "");
}

absl::StatusOr<SbpChoice> InferOnOneMesh(Graph* graph, const SbpOptions& options) {
  RETURN_IF_ERROR(CheckConstraints(*graph));
  const NdSbp whole(graph->mesh.axes.size(), B());
  SbpChoice choice;
  for (Tensor& tensor : graph->tensors) tensor.sbp = whole;
  for (const Op& op : graph->ops) choice.op_inputs.emplace_back(op.inputs.size(), whole);
  const std::vector<int> axes = AxesToChoose(graph->mesh);
  const std::optional<JointChoice> joint = ChooseTogether(*graph, options, choice, axes);
  if (joint && joint->best.proved()) {
    Store(joint->units, joint->best.label, graph, &choice);
    for (const int axis : axes) AddNotes(*graph, axis, &choice);
    choice.notes.push_back("all axes together: " + ProofText(joint->best, ""));
    return choice;
  }
  for (const int axis : axes) {
    ASSIGN_OR_RETURN(const SbpLabels units, SbpLabels::Make(*graph, choice, options, {axis}));
    const Choices best = Solve(SbpNetwork(*graph, choice, options, units));
    Store(units, best.label, graph, &choice);
    AddNotes(*graph, axis, &choice);
    choice.notes.push_back("axis " + graph->mesh.axes[axis].name + ": " +
                           ProofText(best, ", given the axes before it"));
  }
  if (joint) choice.notes.push_back(JointNote(*graph, *joint, choice));
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
