#include "compiler/sbp/op_groups.h"

#include <glog/logging.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "compiler/graph/rewrite.h"
#include "compiler/sbp/sbp_constraint.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Both kinds have the gradient as their fourth input.
bool IsAdamW(const Op& op) { return op.kind == "adamw" || op.kind == "next_adamw"; }

// True if `sbp` splits the dimension "seq".
bool SplitsPositions(const Tensor& tensor, Sbp sbp) {
  const std::vector<std::string>& names = tensor.shape.names;
  return sbp.split() && sbp.dim < static_cast<int>(names.size()) && names[sbp.dim] == "seq";
}

// Union-find over ops; the root of a set is its first op.
class OpSets {
 public:
  explicit OpSets(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  OpId Find(OpId op) {
    while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
    return op;
  }
  void Join(OpId a, OpId b) {
    a = Find(a), b = Find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<OpId> parent_;
};

}  // namespace

std::string RowText(const Signature& row) {
  std::string text = "(";
  for (size_t i = 0; i < row.in.size(); ++i) text += (i > 0 ? ", " : "") + ToString(row.in[i]);
  text += ") -> ";
  for (size_t i = 0; i < row.out.size(); ++i) text += (i > 0 ? ", " : "") + ToString(row.out[i]);
  return text;
}

OpGroups::OpGroups(const Graph& graph, const SbpChoice& previous, const SbpOptions& options,
                   int axis)
    : graph_(&graph),
      previous_(&previous),
      options_(&options),
      axis_(axis),
      devices_(graph.mesh.axes[axis].size) {}

absl::StatusOr<OpGroups> OpGroups::Make(const Graph& graph, const SbpChoice& previous,
                                        const SbpOptions& options, int axis) {
  OpGroups groups(graph, previous, options, axis);
  groups.FindReplicas();
  groups.FindSplitPositions();
  groups.FindParts();
  RETURN_IF_ERROR(groups.FillTable());
  groups.FillGroups();
  for (Group& group : groups.groups_) RETURN_IF_ERROR(groups.FillOptions(&group));
  return groups;
}

void OpGroups::FindReplicas() {
  std::map<std::string, OpId> variables, inputs;
  std::map<std::vector<TensorId>, OpId> sums;
  std::map<OpId, OpId> updates;   // by the variable updated
  std::map<OpId, OpId> prepared;  // by the variable read
  for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
    const Op& op = graph_->ops[id];
    OpId first = id;
    if (IsVariable(op)) first = variables.emplace(VariableName(op), id).first->second;
    if (op.kind == "input") {
      first = inputs.emplace(AttrString(op, "input", op.name), id).first->second;
    }
    if (op.phase == Phase::kPrepare) {
      first = prepared.emplace(first_[graph_->tensors[op.inputs[0]].producer], id).first->second;
    }
    if (op.kind == "sum_uses") first = sums.emplace(op.inputs, id).first->second;
    if (IsAdamW(op)) {
      const OpId variable = first_[graph_->tensors[op.inputs[0]].producer];
      first = updates.emplace(variable, id).first->second;
    }
    first_.push_back(first);
  }
}

// Positions of a sequence stay together unless the options, or a constraint on the axis, split
// them.
void OpGroups::FindSplitPositions() {
  split_positions_ = options_->split_positions;
  for (const Tensor& tensor : graph_->tensors) {
    const auto want = ConstraintOn(tensor, graph_->mesh, axis_);
    const bool variable = IsVariable(graph_->ops[tensor.producer]);
    split_positions_ = split_positions_ || (want && !variable && SplitsPositions(tensor, *want));
  }
}

// The parts of weights, of their casts and of their gradients, if products must be split.
void OpGroups::FindParts() {
  parts_.resize(graph_->tensors.size());
  const std::string& name = graph_->mesh.axes[axis_].name;
  if (!options_->split_products || (name != "tensor" && !name.starts_with("tensor."))) return;
  for (const Op& op : graph_->ops) {
    std::optional<Sbp>& part = parts_[op.outputs[0]];
    if (IsVariable(op)) part = ConstraintOn(graph_->tensors[op.outputs[0]], graph_->mesh, axis_);
    if (op.phase == Phase::kPrepare) part = parts_[op.inputs[0]];
    if (part && !part->split()) part.reset();
  }
  for (const GradientMirror& mirror : options_->mirrors) parts_[mirror.grad] = parts_[mirror.of];
}

absl::Status OpGroups::FillTable() {
  table_.resize(graph_->ops.size());
  for (OpId op = 0; op < static_cast<OpId>(table_.size()); ++op) RETURN_IF_ERROR(FillRows(op));
  return absl::OkStatus();
}

absl::Status OpGroups::FillRows(OpId op) {
  const OpView view{*graph_, graph_->ops[op]};
  const std::vector<Signature> all = FindOpDef(view.op)->signatures(view);
  const std::string* fixed = FixedRow(op);
  bool found = fixed == nullptr;
  for (const Signature& row : all) {
    CHECK_EQ(row.in.size(), view.op.inputs.size()) << view.op.kind;
    CHECK_EQ(row.out.size(), view.op.outputs.size()) << view.op.kind;
    if (fixed != nullptr && RowText(row) != *fixed) continue;
    found = true;
    if (MeetsConstraints(op, row) && Fits(op, row)) table_[op].push_back(row);
  }
  if (!found) return NoSuchRow(op, *fixed, all);
  const auto computes_parts = [&](const Signature& row) { return ComputesParts(op, row); };
  if (std::any_of(table_[op].begin(), table_[op].end(), computes_parts)) {
    std::erase_if(table_[op], std::not_fn(computes_parts));
  }
  return table_[op].empty() ? NoRow(op, all) : absl::OkStatus();
}

const std::string* OpGroups::FixedRow(OpId op) const {
  const auto rows = options_->fixed.find(graph_->mesh.axes[axis_].name);
  if (rows == options_->fixed.end()) return nullptr;
  const auto row = rows->second.find(graph_->ops[op].name);
  return row == rows->second.end() ? nullptr : &row->second;
}

bool OpGroups::MeetsConstraints(OpId op, const Signature& row) const {
  const std::vector<TensorId>& outputs = graph_->ops[op].outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto want = ConstraintOn(graph_->tensors[outputs[i]], graph_->mesh, axis_);
    if (want && *want != row.out[i]) return false;
  }
  return true;
}

bool OpGroups::ComputesParts(OpId op, const Signature& row) const {
  const Op& o = graph_->ops[op];
  if (IsOnceAStep(o.phase)) return true;
  const auto is_part = [&](TensorId t, Sbp sbp) { return !parts_[t] || *parts_[t] == sbp; };
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    if (!is_part(o.inputs[i], row.in[i])) return false;
  }
  for (size_t i = 0; i < o.outputs.size(); ++i) {
    if (!is_part(o.outputs[i], row.out[i])) return false;
  }
  return true;
}

// Every device must get at least one element after this axis and the axes before it have split. An
// output also leaves enough elements for later axes that its constraint splits along the same
// dimension. Nothing is known of later axes of an input: boxing makes it from its writer's layout.
bool OpGroups::Fits(OpId op, const Signature& row) const {
  const Op& o = graph_->ops[op];
  const bool together = !split_positions_ && !IsVariable(o) && !IsOnceAStep(o.phase);
  const auto fits = [&](TensorId t, const NdSbp& previous, Sbp sbp, bool output) {
    if (!sbp.split()) return true;
    if (together && SplitsPositions(graph_->tensors[t], sbp)) return false;
    int64_t size = graph_->tensors[t].shape.dims[sbp.dim];
    for (int b = 0; b < axis_; ++b) {
      if (previous[b] == sbp) size /= graph_->mesh.axes[b].size;
    }
    for (int b = axis_ + 1; output && b < static_cast<int>(graph_->mesh.axes.size()); ++b) {
      if (ConstraintOn(graph_->tensors[t], graph_->mesh, b) == sbp) {
        size /= graph_->mesh.axes[b].size;
      }
    }
    return size >= devices_;
  };
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    if (!fits(o.inputs[i], previous_->op_inputs[op][i], row.in[i], false)) return false;
  }
  for (size_t i = 0; i < o.outputs.size(); ++i) {
    if (!fits(o.outputs[i], graph_->tensors[o.outputs[i]].sbp, row.out[i], true)) return false;
  }
  if (row.divided == 0) return true;
  int64_t parts = devices_;
  for (int b = 0; b < axis_; ++b) {
    if (previous_->op_inputs[op][0][b] == row.in[0]) parts *= graph_->mesh.axes[b].size;
  }
  return row.divided % parts == 0;
}

std::string OpGroups::OtherSplits(OpId op, const Signature& row) const {
  const Op& o = graph_->ops[op];
  const std::vector<Mesh::Axis>& axes = graph_->mesh.axes;
  std::string text;
  const auto add = [&](int axis, int dim) {
    const std::string split = "axis " + axes[axis].name + " of " + std::to_string(axes[axis].size) +
                              " splits dimension " + std::to_string(dim) + ", too";
    if (text.find(split) == text.npos) text += ", and " + split;
  };
  for (int b = 0; b < static_cast<int>(axes.size()); ++b) {
    if (axes[b].size == 1) continue;
    for (size_t i = 0; b < axis_ && i < o.inputs.size(); ++i) {
      if (row.in[i].split() && previous_->op_inputs[op][i][b] == row.in[i]) add(b, row.in[i].dim);
    }
    for (size_t i = 0; b != axis_ && i < o.outputs.size(); ++i) {
      const Tensor& out = graph_->tensors[o.outputs[i]];
      const auto stated = ConstraintOn(out, graph_->mesh, b);
      if (!row.out[i].split()) continue;
      if (b < axis_ ? out.sbp[b] == row.out[i] : stated == row.out[i]) add(b, row.out[i].dim);
    }
  }
  return text;
}

absl::Status OpGroups::NoRow(OpId op, const std::vector<Signature>& all) const {
  const OpView view{*graph_, graph_->ops[op]};
  std::string asked;
  for (TensorId t : view.op.outputs) {
    const auto want = ConstraintOn(graph_->tensors[t], graph_->mesh, axis_);
    if (!want) continue;
    asked += (asked.empty() ? "" : " and ") + graph_->tensors[t].name + " " + ToString(*want);
  }
  if (const std::string* fixed = FixedRow(op)) asked = *fixed;
  const std::string& axis = graph_->mesh.axes[axis_].name;
  std::string rows;
  for (const Signature& row : all) {
    if (MeetsConstraints(op, row)) {
      return InputError(Where(view.op),
                        asked + " on axis " + axis + " leaves some of its " +
                            std::to_string(devices_) +
                            " devices without an element: the shape is " +
                            ToString(view.out(0).shape) + OtherSplits(op, row),
                        "use a larger batch (or dimension) or a smaller axis");
    }
    rows += (rows.empty() ? "" : "; ") + RowText(row);
  }
  return InputError(Where(view.op),
                    "no signature of " + view.op.kind + " gives " + asked + " on axis " + axis,
                    "its signatures are " + rows);
}

absl::Status OpGroups::NoSuchRow(OpId op, const std::string& row,
                                 const std::vector<Signature>& all) const {
  const Op& o = graph_->ops[op];
  std::string rows;
  for (const Signature& r : all) rows += (rows.empty() ? "" : "; ") + RowText(r);
  return InputError(Where(o),
                    "a layout of axis " + graph_->mesh.axes[axis_].name + " says " + row +
                        ", which is no signature of " + o.kind,
                    "its signatures are " + rows);
}

void OpGroups::FillGroups() {
  OpSets sets(graph_->ops.size());
  for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
    const Op& op = graph_->ops[id];
    sets.Join(id, first_[id]);
    if (op.phase == Phase::kPrepare) sets.Join(id, graph_->tensors[op.inputs[0]].producer);
    const int updates = FindOpDef(op)->updates + FindOpDef(op)->versioned_updates;
    for (int i = 0; i < updates; ++i) sets.Join(id, graph_->tensors[op.inputs[i]].producer);
    if (!IsAdamW(op)) continue;
    const OpId grad = graph_->tensors[op.inputs[3]].producer;
    if (graph_->ops[grad].kind == "sum_uses") sets.Join(id, grad);
  }
  members_.resize(graph_->ops.size());
  for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
    const OpId root = sets.Find(id);
    if (root == id) {
      members_[id].group = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    Group& group = groups_[members_[root].group];
    members_[id] = {members_[root].group, static_cast<int>(group.ops.size())};
    group.ops.push_back(id);
  }
}

// A group of one op has an option for each row. A group of several has an option for each SBP of
// the variable that all of its ops can put out.
absl::Status OpGroups::FillOptions(Group* group) {
  const OpId first = group->ops.front();
  for (int row = 0; row < static_cast<int>(table_[first].size()); ++row) {
    std::vector<int> rows = {row};
    for (size_t i = 1; i < group->ops.size(); ++i) {
      const std::vector<Signature>& table = table_[group->ops[i]];
      const auto same = [&](const Signature& s) { return s.out[0] == table_[first][row].out[0]; };
      auto it = std::find_if(table.begin(), table.end(), same);
      if (it == table.end()) break;
      rows.push_back(static_cast<int>(it - table.begin()));
    }
    if (rows.size() < group->ops.size()) continue;
    group->rows.push_back(std::move(rows));
  }
  if (!group->rows.empty()) return absl::OkStatus();
  const Op& op = graph_->ops[first];
  return InputError(
      Where(op),
      "no SBP on axis " + graph_->mesh.axes[axis_].name + " suits both the variable and its update",
      "constrain " + op.name + " to B or to a split that its update has");
}

}  // namespace oneflow
