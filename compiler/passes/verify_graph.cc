// Proves the results of inferring SBP and inserting boxing from the tables of ops and primitives
// alone. It shares no code with the passes it checks.
//
//  1. Every tensor has an SBP for each axis; the stage axis is B.
//  2. Every op's inputs and outputs are, on each axis, a row of its table; a boxing op changes the
//     axes it names as its kind says, a transfer none.
//  3. Every input is on the op's stage, except a transfer's.
//  4. No partial value leaves the graph as its loss or an output; 2 excludes that an op reads one
//     by mistake.
//  5. Nothing in forward reads backward or update; nothing in backward reads update.
//  6. A tensor that an op updates in place (OpDef::updates) is a variable: no boxing between.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

absl::Status RefuseOp(const Op& op, const std::string& what) {
  return absl::InternalError("op " + op.name + " (" + op.kind + "): " + what);
}

absl::Status CheckTensors(const Graph& graph) {
  const int stage = graph.mesh.stage_axis();
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.sbp.size() != graph.mesh.axes.size()) {
      return absl::InternalError("tensor " + tensor.name + " has no SBP");
    }
    if (stage >= 0 && !tensor.sbp[stage].broadcast()) {
      return absl::InternalError("tensor " + tensor.name + " is not B on the stage axis");
    }
    for (Sbp sbp : tensor.sbp) {
      if (sbp.split() && (sbp.dim < 0 || sbp.dim >= tensor.shape.rank())) {
        return absl::InternalError("tensor " + tensor.name + " has no dimension to split");
      }
    }
  }
  return absl::OkStatus();
}

// The mesh axes of the attribute `axis`, "data" or "data,tensor".
std::vector<int> AxesNamed(const Graph& graph, const Op& op) {
  std::vector<int> axes;
  std::istringstream names(AttrString(op, "axis"));
  for (std::string name; std::getline(names, name, ',');) {
    axes.push_back(graph.mesh.FindAxis(name));
  }
  return axes;
}

absl::Status CheckBoxing(const Graph& graph, const Op& op) {
  const Tensor& in = graph.tensors[op.inputs[0]];
  const Tensor& out = graph.tensors[op.outputs[0]];
  if (!(in.shape == out.shape) || in.dtype != out.dtype) return RefuseOp(op, "changes the tensor");
  if (IsTransfer(op.kind)) {
    if (in.sbp != out.sbp) return RefuseOp(op, "changes the SBP between stages");
    return absl::OkStatus();
  }
  const std::vector<int> axes = AxesNamed(graph, op);
  const auto named = [&axes](int a) {
    return std::find(axes.begin(), axes.end(), a) != axes.end();
  };
  if (axes.empty() || named(-1)) return RefuseOp(op, "names no axis");
  const Primitive& primitive = GetPrimitive(op.kind);
  if (axes.size() > 1 && !primitive.several) return RefuseOp(op, "works on several axes");
  for (int a = 0; a < static_cast<int>(in.sbp.size()); ++a) {
    const bool right = named(a) ? primitive.Changes(in.sbp[a], out.sbp[a], axes.size() == 1)
                                : in.sbp[a] == out.sbp[a];
    if (!right) return RefuseOp(op, "turns " + ToString(in.sbp) + " into " + ToString(out.sbp));
    if (named(a) || graph.mesh.axes[a].size == 1) continue;
    // An axis splits before the later ones: it cannot change a split outside of theirs.
    for (const int axis : axes) {
      if (axis > a || !in.sbp[a].split()) continue;
      if (in.sbp[axis] == in.sbp[a] || out.sbp[axis] == in.sbp[a]) {
        return RefuseOp(op, "changes a split outside of that of axis " + graph.mesh.axes[a].name);
      }
    }
  }
  return absl::OkStatus();
}

// True if the parts that input 0 is split into, over all axes that split it so, may be so many.
bool MayDivide(const Graph& graph, const Op& op, const Signature& row) {
  if (row.divided == 0) return true;
  int64_t parts = 1;
  for (size_t a = 0; a < graph.mesh.axes.size(); ++a) {
    if (graph.tensors[op.inputs[0]].sbp[a] == row.in[0]) parts *= graph.mesh.axes[a].size;
  }
  return row.divided % parts == 0;
}

absl::Status CheckSignature(const Graph& graph, const Op& op) {
  const OpDef* def = FindOpDef(op);
  if (def == nullptr) return RefuseOp(op, "is of no known kind");
  const std::vector<Signature> rows = def->signatures(OpView{graph, op});
  const Mesh& mesh = graph.mesh;
  for (int a = 0; a < static_cast<int>(mesh.axes.size()); ++a) {
    Signature used;
    for (TensorId t : op.inputs) used.in.push_back(graph.tensors[t].sbp[a]);
    for (TensorId t : op.outputs) used.out.push_back(graph.tensors[t].sbp[a]);
    const bool found = std::any_of(rows.begin(), rows.end(), [&](const Signature& row) {
      return row.in == used.in && row.out == used.out && MayDivide(graph, op, row);
    });
    if (!found) {
      return RefuseOp(op, "no row of its table on axis " + mesh.axes[a].name + " is (" +
                              ToString(used.in) + ") -> " + ToString(used.out));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const Graph& graph, const Op& op) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Op& producer = graph.Producer(op.inputs[i]);
    if (producer.stage != op.stage && !IsTransfer(op.kind)) {
      return RefuseOp(op, "reads " + producer.name + " of another stage");
    }
    if (producer.phase > op.phase && producer.kind != "variable") {
      return RefuseOp(op, "reads " + producer.name + " of a later phase");
    }
    const OpDef* def = FindOpDef(op);
    const bool updated = def != nullptr && static_cast<int>(i) < def->updates;
    if (updated && producer.kind != "variable") {
      return RefuseOp(op, "updates " + producer.name + ", which is no variable");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNotPartial(const Graph& graph, TensorId t) {
  for (Sbp sbp : graph.tensors[t].sbp) {
    if (sbp.partial()) return RefuseOp(graph.Producer(t), "a partial value leaves the graph");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyGraph(const Graph& graph) {
  RETURN_IF_ERROR(CheckTensors(graph));
  for (const Op& op : graph.ops) {
    RETURN_IF_ERROR(CheckInputs(graph, op));
    RETURN_IF_ERROR(IsBoxing(op.kind) ? CheckBoxing(graph, op) : CheckSignature(graph, op));
  }
  for (TensorId t : graph.outputs) RETURN_IF_ERROR(CheckNotPartial(graph, t));
  if (graph.loss >= 0) RETURN_IF_ERROR(CheckNotPartial(graph, graph.loss));
  return absl::OkStatus();
}

}  // namespace oneflow
