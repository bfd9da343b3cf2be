#include "compiler/passes/sbp_problem.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "compiler/passes/boxing_path.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/sbp_constraint.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// A split variable that its readers need whole is fetched before every micro-batch and stands in
// its way: worth twice, unless the user asked for it.
constexpr double kGatherVariable = 2;

// Whether a gradient lies as the tensor it belongs to, which lies as `of`. That of a split variable
// may be partial: its reduction splits it.
bool Mirrors(Sbp of, Sbp grad, bool variable) {
  if (of.split()) return grad == of || (variable && grad.kind == Sbp::kPartialSum);
  return grad.broadcast() || grad.kind == Sbp::kPartialSum;
}

// Readers that may share one boxing: those of a variable only within a phase, so that what is
// gathered from a split variable does not live from forward to backward.
int SharingClass(bool variable, Phase phase) {
  if (variable) return static_cast<int>(phase);
  return phase == Phase::kUpdate ? 1 : 0;
}

// Every device does all of the op's work; then so it does of its gradients.
bool IsWhole(const Signature& row) {
  const auto whole = [](Sbp sbp) { return sbp.broadcast(); };
  return std::all_of(row.in.begin(), row.in.end(), whole) &&
         std::all_of(row.out.begin(), row.out.end(), whole);
}

std::string RowText(const OpView& op, const Signature& row) {
  std::string text = "(";
  for (size_t i = 0; i < row.in.size(); ++i) text += (i > 0 ? ", " : "") + ToString(row.in[i]);
  text += ") -> ";
  for (size_t i = 0; i < row.out.size(); ++i) text += (i > 0 ? ", " : "") + ToString(row.out[i]);
  return text;
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

SbpProblem::SbpProblem(const Graph& graph, const SbpChoice& settled, const SbpOptions& options,
                       int axis)
    : graph_(&graph),
      settled_(&settled),
      options_(&options),
      axis_(axis),
      devices_(graph.mesh.axes[axis].size) {}

absl::StatusOr<SbpProblem> SbpProblem::Make(const Graph& graph, const SbpChoice& settled,
                                            const SbpOptions& options, int axis) {
  SbpProblem problem(graph, settled, options, axis);
  problem.FindReplicas();
  problem.FillEdges();
  RETURN_IF_ERROR(problem.FillTable());
  problem.FillUnits();
  for (Unit& unit : problem.units_) RETURN_IF_ERROR(problem.FillLabels(&unit));
  problem.FillNeighbours();
  return problem;
}

void SbpProblem::FindReplicas() {
  std::map<std::string, OpId> variables, inputs;
  std::map<std::vector<TensorId>, OpId> sums;
  std::map<OpId, OpId> updates;   // by the variable updated
  std::map<OpId, OpId> prepared;  // by the variable read
  for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
    const Op& op = graph_->ops[id];
    OpId first = id;
    if (IsVariable(op)) first = variables.emplace(VariableOf(op), id).first->second;
    if (op.kind == "input") {
      first = inputs.emplace(AttrString(op, "input", op.name), id).first->second;
    }
    if (op.phase == Phase::kPrepare) {
      first = prepared.emplace(first_[graph_->tensors[op.inputs[0]].producer], id).first->second;
    }
    if (op.kind == "sum_uses") first = sums.emplace(op.inputs, id).first->second;
    if (op.kind == "adamw") {
      const OpId variable = first_[graph_->tensors[op.inputs[0]].producer];
      first = updates.emplace(variable, id).first->second;
    }
    first_.push_back(first);
  }
}

absl::Status SbpProblem::FillTable() {
  table_.resize(graph_->ops.size());
  for (OpId op = 0; op < static_cast<OpId>(table_.size()); ++op) RETURN_IF_ERROR(FillRows(op));
  return absl::OkStatus();
}

absl::Status SbpProblem::FillRows(OpId op) {
  const OpView view{*graph_, graph_->ops[op]};
  const std::vector<Signature> all = FindOpDef(view.op.kind)->signatures(view);
  for (const Signature& row : all) {
    CHECK_EQ(row.in.size(), view.op.inputs.size()) << view.op.kind;
    CHECK_EQ(row.out.size(), view.op.outputs.size()) << view.op.kind;
    if (MeetsConstraints(op, row) && Fits(op, row)) table_[op].push_back(row);
  }
  return table_[op].empty() ? NoRow(op, all) : absl::OkStatus();
}

bool SbpProblem::MeetsConstraints(OpId op, const Signature& row) const {
  const std::vector<TensorId>& outputs = graph_->ops[op].outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto want = ConstraintOn(graph_->tensors[outputs[i]], graph_->mesh, axis_);
    if (want && *want != row.out[i]) return false;
  }
  return true;
}

// Every device gets at least one element of what this axis splits after the axes before it, and
// leaves enough for the axes after it that a constraint splits alike.
bool SbpProblem::Fits(OpId op, const Signature& row) const {
  auto fits = [this](TensorId t, const NdSbp& settled, Sbp sbp) {
    if (!sbp.split()) return true;
    int64_t size = graph_->tensors[t].shape.dims[sbp.dim];
    for (int b = 0; b < axis_; ++b) {
      if (settled[b] == sbp) size /= graph_->mesh.axes[b].size;
    }
    for (int b = axis_ + 1; b < static_cast<int>(graph_->mesh.axes.size()); ++b) {
      if (ConstraintOn(graph_->tensors[t], graph_->mesh, b) == sbp) {
        size /= graph_->mesh.axes[b].size;
      }
    }
    return size >= devices_;
  };
  const Op& o = graph_->ops[op];
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    if (!fits(o.inputs[i], settled_->op_inputs[op][i], row.in[i])) return false;
  }
  for (size_t i = 0; i < o.outputs.size(); ++i) {
    if (!fits(o.outputs[i], graph_->tensors[o.outputs[i]].sbp, row.out[i])) return false;
  }
  return true;
}

absl::Status SbpProblem::NoRow(OpId op, const std::vector<Signature>& all) const {
  const OpView view{*graph_, graph_->ops[op]};
  std::string asked;
  for (TensorId t : view.op.outputs) {
    const auto want = ConstraintOn(graph_->tensors[t], graph_->mesh, axis_);
    if (!want) continue;
    asked += (asked.empty() ? "" : " and ") + graph_->tensors[t].name + " " + ToString(*want);
  }
  const std::string& axis = graph_->mesh.axes[axis_].name;
  std::string rows;
  for (const Signature& row : all) {
    if (MeetsConstraints(op, row)) {
      return InputError(
          "op " + view.op.name,
          asked + " on axis " + axis + " leaves some of its " + std::to_string(devices_) +
              " devices without an element: the shape is " + ToString(view.out(0).shape),
          "use a larger batch (or dimension) or a smaller axis");
    }
    rows += (rows.empty() ? "" : "; ") + RowText(view, row);
  }
  return InputError("op " + view.op.name,
                    "no signature of " + view.op.kind + " gives " + asked + " on axis " + axis,
                    "its signatures are " + rows);
}

void SbpProblem::FillUnits() {
  OpSets sets(graph_->ops.size());
  for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
    const Op& op = graph_->ops[id];
    sets.Join(id, first_[id]);
    if (op.phase == Phase::kPrepare) sets.Join(id, graph_->tensors[op.inputs[0]].producer);
    const int updates = FindOpDef(op.kind)->updates;
    for (int i = 0; i < updates; ++i) sets.Join(id, graph_->tensors[op.inputs[i]].producer);
    if (op.kind != "adamw") continue;
    const OpId grad = graph_->tensors[op.inputs[3]].producer;
    if (graph_->ops[grad].kind == "sum_uses") sets.Join(id, grad);
  }
  members_.resize(graph_->ops.size());
  work_.assign(graph_->ops.size(), 0);
  for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
    const OpId root = sets.Find(id);
    if (root == id) {
      members_[id].unit = static_cast<int>(units_.size());
      units_.emplace_back();
      units_.back().source = graph_->ops[id].inputs.empty();
    }
    Unit& unit = units_[members_[root].unit];
    members_[id] = {members_[root].unit, static_cast<int>(unit.ops.size())};
    unit.ops.push_back(id);
  }
}

// One op: a label a row. Several: a label for each SBP of the variable for which all have a row
// that puts out the same.
absl::Status SbpProblem::FillLabels(Unit* unit) {
  const OpId first = unit->ops.front();
  for (int row = 0; row < static_cast<int>(table_[first].size()); ++row) {
    std::vector<int> rows = {row};
    for (size_t i = 1; i < unit->ops.size(); ++i) {
      const std::vector<Signature>& table = table_[unit->ops[i]];
      auto same = [&](const Signature& s) { return s.out[0] == table_[first][row].out[0]; };
      auto it = std::find_if(table.begin(), table.end(), same);
      if (it == table.end()) break;
      rows.push_back(static_cast<int>(it - table.begin()));
    }
    if (rows.size() < unit->ops.size()) continue;
    double price = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const OpId op = unit->ops[i];
      const double work = Compute(op, table_[op][rows[i]]);
      work_[op] = std::max(work_[op], work);
      if (first_[op] == op) price += work;
    }
    unit->rows.push_back(std::move(rows));
    unit->price.push_back(price);
  }
  if (!unit->rows.empty()) return absl::OkStatus();
  const std::string& name = graph_->ops[first].name;
  return InputError("op " + name,
                    "no SBP on axis " + graph_->mesh.axes[axis_].name +
                        " suits the variable and its update alike",
                    "constrain " + name + " to B or to a split that its update has");
}

void SbpProblem::FillEdges() {
  // What reads a replica reads the first, and a replica reads nothing.
  std::vector<std::vector<Use>> uses(graph_->tensors.size());
  for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
    if (first_[id] != id) continue;
    const Op& op = graph_->ops[id];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& read = graph_->tensors[op.inputs[i]];
      const TensorId t = graph_->ops[first_[read.producer]].outputs[read.output];
      uses[t].push_back({id, static_cast<int>(i)});
    }
  }
  for (TensorId t = 0; t < static_cast<TensorId>(graph_->tensors.size()); ++t) {
    const Tensor& tensor = graph_->tensors[t];
    const Op& producer = graph_->ops[tensor.producer];
    Edge& edge = edges_.emplace_back();
    edge.producer = tensor.producer;
    edge.output = tensor.output;
    edge.bytes = static_cast<double>(BytesOf(tensor));
    edge.copies = Copies(tensor.sbp);
    edge.variable = IsVariable(producer) || producer.phase == Phase::kPrepare;
    const bool asked = ConstraintOn(tensor, graph_->mesh, axis_).has_value();
    edge.gather = edge.variable && !asked ? kGatherVariable : 1;
    // Stages are not looked at: the same choice at any pipe degree, so the same bits (law 6).
    std::map<int, Readers> groups;
    for (const Use& use : uses[t]) {
      const Phase phase = graph_->ops[use.op].phase;
      Readers& group = groups[SharingClass(edge.variable, phase)];
      group.uses.push_back(use);
      group.fires = Fires(phase);
    }
    for (auto& [key, group] : groups) edge.readers.push_back(std::move(group));
  }
  for (TensorId t : graph_->outputs) edges_[t].observed = true;
  if (graph_->loss >= 0) edges_[graph_->loss].observed = true;
  for (const GradientMirror& mirror : options_->mirrors) {
    Edge& edge = edges_[mirror.grad];
    edge.mirror = mirror;
    edge.mirror_chooser = mirror.reader >= 0 ? mirror.reader : graph_->tensors[mirror.of].producer;
    edge.mirror_variable = edges_[mirror.of].variable;
  }
}

void SbpProblem::FillNeighbours() {
  std::vector<std::set<TensorId>> tensors(units_.size());
  std::vector<std::set<int>> neighbours(units_.size());
  auto join = [&](OpId op, OpId producer, TensorId t) {
    const int u = members_[op].unit, v = members_[producer].unit;
    tensors[u].insert(t);
    if (u == v) return;
    neighbours[u].insert(v);
    neighbours[v].insert(u);
  };
  for (TensorId t = 0; t < static_cast<TensorId>(edges_.size()); ++t) {
    const Edge& edge = edges_[t];
    tensors[members_[edge.producer].unit].insert(t);
    for (const Readers& readers : edge.readers) {
      for (const Use& use : readers.uses) join(use.op, edge.producer, t);
    }
    if (edge.mirror_chooser >= 0) join(edge.mirror_chooser, edge.producer, t);
  }
  for (int u = 0; u < units(); ++u) {
    units_[u].tensors.assign(tensors[u].begin(), tensors[u].end());
    units_[u].neighbours.assign(neighbours[u].begin(), neighbours[u].end());
  }
}

double SbpProblem::Fires(Phase phase) const {
  return IsOnceAStep(phase) ? 1 : static_cast<double>(options_->micro_batches);
}

// How many groups along the axes before this one hold a tensor whole.
double SbpProblem::Copies(const NdSbp& sbp) const {
  double copies = 1;
  for (int b = 0; b < axis_; ++b) {
    if (b != graph_->mesh.stage_axis() && !sbp[b].split()) copies *= graph_->mesh.axes[b].size;
  }
  return copies;
}

double SbpProblem::Compute(OpId op, const Signature& row) const {
  const OpView view{*graph_, graph_->ops[op]};
  if (IsVariable(view.op)) return 0;
  double touched = 0, all_touched = 0, held_partial = 0;
  bool split = false;
  std::vector<bool> split_before(axis_, false);
  auto visit = [&](TensorId t, const NdSbp& settled, Sbp sbp) {
    const double bytes = static_cast<double>(BytesOf(graph_->tensors[t]));
    split = split || sbp.split();
    all_touched += bytes;
    touched += sbp.split() ? bytes : bytes * devices_;
    if (sbp.partial()) held_partial += bytes * devices_;
    for (int b = 0; b < axis_; ++b) split_before[b] = split_before[b] || settled[b].split();
  };
  for (int i = 0; i < view.n_inputs(); ++i) {
    visit(view.op.inputs[i], settled_->op_inputs[op][i], row.in[i]);
  }
  for (size_t i = 0; i < view.op.outputs.size(); ++i) {
    visit(view.op.outputs[i], view.out(static_cast<int>(i)).sbp, row.out[i]);
  }
  double times = Fires(view.op.phase);
  for (int b = 0; b < axis_; ++b) {
    if (b != graph_->mesh.stage_axis() && !split_before[b]) times *= graph_->mesh.axes[b].size;
  }
  const auto& flops_of = FindOpDef(view.op.kind)->flops;
  const double flops =
      (flops_of == nullptr ? 0 : flops_of(view)) - options_->flops_per_byte * all_touched;
  return times * (options_->bytes_per_flop * std::max(0.0, flops) * (split ? 1 : devices_) +
                  options_->bytes_per_byte_touched * (touched + 0.5 * held_partial));
}

// What a gradient costs for not lying as its tensor: more than boxing it, or splitting its work,
// can gain.
double SbpProblem::MirrorPrice(const Edge& edge, Sbp sbp, const std::vector<int>& label) const {
  if (edge.mirror_chooser < 0 || label[members_[edge.mirror_chooser].unit] < 0) return 0;
  const Signature& row = Chosen(edge.mirror_chooser, label);
  const bool reader = edge.mirror.reader >= 0;
  const Sbp lies = reader ? row.in[edge.mirror.input] : row.out[edges_[edge.mirror.of].output];
  if (reader && IsWhole(row) ? sbp.broadcast() : Mirrors(lies, sbp, edge.mirror_variable)) return 0;
  const double boxing = 3.0 * devices_ * edge.bytes + 4 * kBoxingLatency;
  return Fires(Phase::kBackward) * boxing + 2 * work_[edge.producer];
}

double SbpProblem::ReadersPrice(const Edge& edge, const Readers& readers, Sbp from,
                                const std::vector<int>& label) const {
  Sbp seen[16];  // more than a tensor has SBPs
  int n_seen = 0;
  double price = 0;
  for (const Use& use : readers.uses) {
    if (label[members_[use.op].unit] < 0) continue;
    const Sbp need = Chosen(use.op, label).in[use.input];
    if (std::find(seen, seen + n_seen, need) != seen + n_seen) continue;
    if (n_seen < 16) seen[n_seen++] = need;
    price += (need.split() ? 1 : edge.gather) * TransitionPrice(from, need, edge.bytes, devices_);
  }
  return price * readers.fires;
}

double SbpProblem::TensorPrice(TensorId t, const std::vector<int>& label) const {
  const Edge& edge = edges_[t];
  if (label[members_[edge.producer].unit] < 0) return 0;
  const Sbp from = Chosen(edge.producer, label).out[edge.output];
  double price = MirrorPrice(edge, from, label);
  for (const Readers& readers : edge.readers) price += ReadersPrice(edge, readers, from, label);
  if (edge.observed && from.partial()) price += TransitionPrice(from, B(), edge.bytes, devices_);
  return price * edge.copies;
}

}  // namespace oneflow
