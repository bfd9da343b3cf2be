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
#include "compiler/passes/sbp_network.h"
#include "compiler/passes/sbp_units.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

void Store(const SbpUnits& units, const std::vector<int>& label, int axis, Graph* graph,
           SbpChoice* choice) {
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const Op& op = graph->ops[id];
    const Signature& row = units.Row(id, label[units.UnitOf(id)]);
    for (size_t i = 0; i < op.inputs.size(); ++i) choice->op_inputs[id][i][axis] = row.in[i];
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      graph->tensors[op.outputs[i]].sbp[axis] = row.out[i];
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
std::string ProofText(const Choices& best) {
  if (best.proved()) return "no other layout takes less time, given the axes before it";
  const double share = static_cast<double>(best.cost - best.bound) / static_cast<double>(best.cost);
  char text[96];
  std::snprintf(text, sizeof(text), "another layout could take at most %.2g %% less time",
                100 * share);
  return text;
}

absl::StatusOr<SbpChoice> InferOnOneMesh(Graph* graph, const SbpOptions& options) {
  RETURN_IF_ERROR(CheckConstraints(*graph));
  const Mesh& mesh = graph->mesh;
  const NdSbp whole(mesh.axes.size(), B());
  SbpChoice choice;
  for (Tensor& tensor : graph->tensors) tensor.sbp = whole;
  for (const Op& op : graph->ops) choice.op_inputs.emplace_back(op.inputs.size(), whole);
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    if (axis == mesh.stage_axis() || mesh.axes[axis].size == 1) continue;
    ASSIGN_OR_RETURN(const SbpUnits units, SbpUnits::Make(*graph, choice, options, axis));
    const Choices best = Solve(SbpNetwork(*graph, choice, options, axis, units));
    Store(units, best.label, axis, graph, &choice);
    AddNotes(*graph, axis, &choice);
    choice.notes.push_back("axis " + mesh.axes[axis].name + ": " + ProofText(best));
  }
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
