#include "compiler/sbp/op_costs.h"

#include <cstdint>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/cost/call_bytes.h"

namespace oneflow {

namespace {

// The sizes of the largest of `parts`.
void Split(Sbp sbp, int parts, Dims* dims) {
  if (sbp.split()) (*dims)[sbp.dim] = ((*dims)[sbp.dim] + parts - 1) / parts;
}

}  // namespace

double OpCosts::PartsBefore(const NdSbp& previous) const {
  double parts = 1;
  for (int b = 0; b < space_.axes().front(); ++b) {
    if (previous[b].split()) parts *= graph_.mesh.axes[b].size;
  }
  return parts;
}

std::vector<OpCosts::Operand> OpCosts::MakeOperands(OpId id) const {
  const Op& op = graph_.ops[id];
  const int group = space_.GroupIndex(id);
  std::vector<Operand> operands;
  const auto add = [&](TensorId t, const NdSbp& previous, auto sbp_in) {
    const Tensor& tensor = graph_.tensors[t];
    Operand operand{static_cast<double>(TensorBytes(tensor)) / PartsBefore(previous)};
    operand.dims = tensor.shape.dims;
    for (int b = 0; b < space_.axes().front(); ++b) {
      Split(previous[b], graph_.mesh.axes[b].size, &operand.dims);
    }
    for (int k = 0; k < static_cast<int>(space_.axes().size()); ++k) {
      operand.sbps.emplace_back();
      for (int l = 0; l < space_.option_count(group, k); ++l) {
        operand.sbps[k].push_back(sbp_in(space_.Row(id, k, l)));
      }
    }
    operands.push_back(std::move(operand));
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    add(op.inputs[i], previous_.op_inputs[id][i], [&](const Signature& row) { return row.in[i]; });
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    add(op.outputs[i], graph_.tensors[op.outputs[i]].sbp,
        [&](const Signature& row) { return row.out[i]; });
  }
  return operands;
}

// Devices among which the previous axes divide the op's work: those of each axis on which an input
// or output is split.
double OpCosts::ShareBefore(OpId id) const {
  const Op& op = graph_.ops[id];
  double share = 1;
  for (int b = 0; b < space_.axes().front(); ++b) {
    bool split = false;
    for (const NdSbp& previous : previous_.op_inputs[id]) split = split || previous[b].split();
    for (const TensorId t : op.outputs) split = split || graph_.tensors[t].sbp[b].split();
    if (split) share *= graph_.mesh.axes[b].size;
  }
  return share;
}

double OpCosts::Devices(int k) const { return graph_.mesh.axes[space_.axes()[k]].size; }

double OpCosts::SecondsWith(const Work& work, const std::vector<int>& combination) const {
  const int axes = static_cast<int>(combination.size());
  std::vector<double> read;
  double written = 0, first_written = 0;
  std::vector<bool> split(axes, false);
  for (size_t i = 0; i < work.operands.size(); ++i) {
    const Operand& operand = work.operands[i];
    double bytes = operand.bytes;
    for (int k = 0; k < axes; ++k) {
      const Sbp sbp = operand.sbps[k][combination[k]];
      split[k] = split[k] || sbp.split();
      if (sbp.split()) bytes /= Devices(k);
    }
    if (i < work.inputs) {
      read.push_back(bytes);
    } else {
      if (i == work.inputs) first_written = bytes;
      written += bytes;
    }
  }
  CallWork call = work.call;
  for (int k = 0; k < axes; ++k) {
    if (split[k]) call.flops /= Devices(k);
  }
  call.bytes = BytesRead(call.kernel, std::move(read), first_written) + written;
  if (work.def != nullptr && HasSizes(*work.def)) {
    SetSizes(*work.def, LocalWork(work, combination), &call);
  }
  return cost_.Seconds(call);
}

LocalOp OpCosts::LocalWork(const Work& work, const std::vector<int>& combination) const {
  LocalOp local{*work.attrs, {}, {}};
  for (size_t i = 0; i < work.operands.size(); ++i) {
    Dims dims = work.operands[i].dims;
    for (size_t k = 0; k < combination.size(); ++k) {
      Split(work.operands[i].sbps[k][combination[k]], graph_.mesh.axes[space_.axes()[k]].size,
            &dims);
    }
    (i < work.inputs ? local.in : local.out).push_back(std::move(dims));
  }
  return local;
}

OpCosts::Work OpCosts::MakeWork(OpId id) const {
  const OpView view{graph_, graph_.ops[id]};
  Work work{{.kernel = FormName(view.op)}, {}, view.op.inputs.size()};
  if (IsVariable(view.op)) return work;
  const std::vector<TensorId>& typed = view.op.inputs.empty() ? view.op.outputs : view.op.inputs;
  if (!typed.empty()) work.call.dtype = graph_.tensors[typed[0]].dtype;
  work.def = FindOpDef(view.op);
  work.attrs = &view.op.attrs;
  if (work.def->flops) work.call.flops = work.def->flops(view) / ShareBefore(id);
  work.operands = MakeOperands(id);
  return work;
}

// The sizes of all combinations.
void OpCosts::AddSizes(int group, const Work& work, std::vector<double>* key) const {
  if (work.def == nullptr || !HasSizes(*work.def)) return;
  std::vector<int> combination(space_.axes().size(), 0);
  do {
    CallWork call;
    SetSizes(*work.def, LocalWork(work, combination), &call);
    const ProductSpec& p = call.product;
    const AttentionSpec& a = call.attention;
    for (const int64_t n : {p.batch, p.m, p.n, p.k, int64_t{p.transpose_a}, int64_t{p.transpose_b},
                            a.keys, a.head_size}) {
      key->push_back(static_cast<double>(n));
    }
  } while (space_.Next(group, &combination));
}

const std::vector<double>& OpCosts::Seconds(OpId id) {
  if (of_op_[id] == nullptr) of_op_[id] = &FindSeconds(id);
  return *of_op_[id];
}

const std::vector<double>& OpCosts::FindSeconds(OpId id) {
  const int group = space_.GroupIndex(id), axes = static_cast<int>(space_.axes().size());
  const Work work = MakeWork(id);
  std::vector<double> key = {work.call.flops, static_cast<double>(work.call.dtype)};
  for (int k = 0; k < axes; ++k) key.push_back(space_.option_count(group, k));
  for (const Operand& operand : work.operands) {
    key.push_back(operand.bytes);
    for (const std::vector<Sbp>& on_axis : operand.sbps) {
      for (const Sbp sbp : on_axis) key.push_back(sbp.split() ? 1 : sbp.partial() ? 2 : 0);
    }
  }
  AddSizes(group, work, &key);
  const auto [known, fresh] = known_.try_emplace({work.call.kernel, std::move(key)});
  if (!fresh) return known->second;
  std::vector<int> combination(axes, 0);
  do {
    known->second.push_back(SecondsWith(work, combination));
  } while (space_.Next(group, &combination));
  return known->second;
}

}  // namespace oneflow
