#include "compiler/passes/verify_graph.h"

#include <algorithm>
#include <string>

#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

absl::Status Refuse(const Op& op, const std::string& what) {
  return absl::InternalError("op " + op.name + " (" + op.kind + "): " + what);
}

absl::Status CheckTensors(const Graph& graph) {
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.sbp.size() != graph.mesh.axes.size()) {
      return absl::InternalError("tensor " + tensor.name + " has no SBP");
    }
    const int stage = graph.mesh.stage_axis();
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

// What each boxing primitive does to its axis.
bool IsPrimitive(const std::string& kind, Sbp from, Sbp to) {
  if (kind == "slice") return from.broadcast() && to.split();
  if (kind == "all_gather") return from.split() && to.broadcast();
  if (kind == "reduce_scatter") return from.partial() && to.split();
  if (kind == "all_reduce") return from.partial() && to.broadcast();
  if (kind == "all_to_all") return from.split() && to.split();
  if (kind == "zero_fill") return from.broadcast() && to.kind == Sbp::kPartialSum;
  return false;
}

absl::Status CheckBoxing(const Graph& graph, const Op& op) {
  const Tensor& in = graph.tensors[op.inputs[0]];
  const Tensor& out = graph.tensors[op.outputs[0]];
  if (!(in.shape == out.shape) || in.dtype != out.dtype) return Refuse(op, "changes the tensor");
  if (op.kind == "transfer") {
    if (in.sbp != out.sbp) return Refuse(op, "changes the SBP between stages");
    return absl::OkStatus();
  }
  const int axis = graph.mesh.FindAxis(AttrString(op, "axis"));
  if (axis < 0) return Refuse(op, "names no axis");
  for (int a = 0; a < static_cast<int>(in.sbp.size()); ++a) {
    const bool right =
        a == axis ? IsPrimitive(op.kind, in.sbp[a], out.sbp[a]) : in.sbp[a] == out.sbp[a];
    if (!right) {
      return Refuse(op, "turns " + ToString(in.sbp) + " into " + ToString(out.sbp));
    }
    // An axis cuts before the later ones: it cannot change a cut that lies outside of theirs.
    for (Sbp sbp : {in.sbp[axis], out.sbp[axis]}) {
      if (a > axis && sbp.split() && in.sbp[a] == sbp && graph.mesh.axes[a].size > 1) {
        return Refuse(op, "changes a cut outside of that of axis " + graph.mesh.axes[a].name);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSignature(const Graph& graph, const Op& op) {
  const OpDef* def = FindOpDef(op.kind);
  if (def == nullptr) return Refuse(op, "is of no known kind");
  const std::vector<Signature> rows = def->signatures(OpView{graph, op});
  for (int a = 0; a < static_cast<int>(graph.mesh.axes.size()); ++a) {
    Signature used;
    for (TensorId t : op.inputs) used.in.push_back(graph.tensors[t].sbp[a]);
    for (TensorId t : op.outputs) used.out.push_back(graph.tensors[t].sbp[a]);
    if (std::find(rows.begin(), rows.end(), used) == rows.end()) {
      return Refuse(op, "no row of its table on axis " + graph.mesh.axes[a].name + " is (" +
                            ToString(used.in) + ") -> " + ToString(used.out));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(const Graph& graph, const Op& op) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Op& producer = graph.ProducerOf(op.inputs[i]);
    if (producer.stage != op.stage && op.kind != "transfer") {
      return Refuse(op, "reads " + producer.name + " of another stage");
    }
    if (producer.phase > op.phase && producer.kind != "variable") {
      return Refuse(op, "reads " + producer.name + " of a later phase");
    }
    const OpDef* def = FindOpDef(op.kind);
    const bool updated = def != nullptr && static_cast<int>(i) < def->updates;
    if (updated && producer.kind != "variable") {
      return Refuse(op, "updates " + producer.name + ", which is no variable");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Graph& graph, TensorId t) {
  for (Sbp sbp : graph.tensors[t].sbp) {
    if (sbp.partial()) return Refuse(graph.ProducerOf(t), "a partial value leaves the graph");
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
  for (TensorId t : graph.outputs) RETURN_IF_ERROR(CheckWhole(graph, t));
  if (graph.loss >= 0) RETURN_IF_ERROR(CheckWhole(graph, graph.loss));
  return absl::OkStatus();
}

}  // namespace oneflow
