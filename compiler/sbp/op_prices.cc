#include "compiler/sbp/op_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/boxing/device_prices.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/cost/call_bytes.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

double OpPrices::PartsBefore(const NdSbp& previous) const {
  double parts = 1;
  for (int b = 0; b < space_.axes().front(); ++b) {
    if (previous[b].split()) parts *= graph_.mesh.axes[b].size;
  }
  return parts;
}

std::vector<OpPrices::Operand> OpPrices::MakeOperands(OpId id) const {
  const Op& op = graph_.ops[id];
  const int group = space_.GroupIndex(id);
  std::vector<Operand> operands;
  const auto add = [&](TensorId t, const NdSbp& previous, auto sbp_in) {
    const Tensor& tensor = graph_.tensors[t];
    Operand operand{static_cast<double>(TensorBytes(tensor)) / PartsBefore(previous)};
    operand.elements = operand.bytes / static_cast<double>(ElementBytes(tensor.dtype));
    operand.matrix_dim = std::max(0, static_cast<int>(tensor.shape.dims.size()) - 2);
    for (int d = 0; d < operand.matrix_dim; ++d) {
      operand.matrices *= static_cast<double>(tensor.shape.dims[d]);
    }
    for (int b = 0; b < space_.axes().front(); ++b) {
      if (previous[b].split() && previous[b].dim < operand.matrix_dim) {
        operand.matrices /= static_cast<double>(graph_.mesh.axes[b].size);
      }
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
double OpPrices::ShareBefore(OpId id) const {
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

double OpPrices::Devices(int k) const { return graph_.mesh.axes[space_.axes()[k]].size; }

double OpPrices::SecondsWith(const Work& work, const std::vector<int>& combination) const {
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
  SetResults(work, combination, &call);
  return cost_.Seconds(call);
}

// The rows and columns of a product's results on a device, from its elements (actor_cost.cc).
void OpPrices::SetResults(const Work& work, const std::vector<int>& combination,
                          CallWork* call) const {
  if (work.products == Products::kNone || work.products == Products::kOwn) return;
  if (work.inputs < 2 || work.operands.size() <= work.inputs) return;
  const auto local = [&](const Operand& operand, double size, int dims) {
    for (size_t k = 0; k < combination.size(); ++k) {
      const Sbp sbp = operand.sbps[k][combination[k]];
      if (sbp.split() && sbp.dim < dims) size /= Devices(static_cast<int>(k));
    }
    return size;
  };
  const auto elements = [&](const Operand& operand) {
    return local(operand, operand.elements, std::numeric_limits<int>::max());
  };
  const Operand& out = work.operands[work.inputs];
  const double products =
      work.products == Products::kBatch ? local(out, out.matrices, out.matrix_dim) : 1;
  const double left = elements(work.operands[0]) / products;
  const double right = elements(work.operands[1]) / products, result = elements(out) / products;
  if (left <= 0 || right <= 0 || result <= 0) return;
  call->products = products;
  call->rows = std::round(std::sqrt(left * result / right));
  call->columns = std::round(std::sqrt(right * result / left));
}

OpPrices::Work OpPrices::MakeWork(OpId id) const {
  const OpView view{graph_, graph_.ops[id]};
  Work work{{.kernel = view.op.kind}, {}, view.op.inputs.size()};
  if (IsVariable(view.op)) return work;
  const std::vector<TensorId>& typed = view.op.inputs.empty() ? view.op.outputs : view.op.inputs;
  if (!typed.empty()) work.call.dtype = graph_.tensors[typed[0]].dtype;
  work.products = FindOpDef(view.op.kind)->products;
  const auto& flops = FindOpDef(view.op.kind)->flops;
  if (flops != nullptr) work.call.flops = flops(view) / ShareBefore(id);
  work.operands = MakeOperands(id);
  return work;
}

const std::vector<double>& OpPrices::Seconds(OpId id) {
  const int group = space_.GroupIndex(id), axes = static_cast<int>(space_.axes().size());
  const Work work = MakeWork(id);
  std::vector<double> key = {work.call.flops, static_cast<double>(work.call.dtype)};
  for (int k = 0; k < axes; ++k) key.push_back(space_.option_count(group, k));
  for (const Operand& operand : work.operands) {
    key.push_back(operand.bytes);
    key.push_back(operand.matrices);
    for (const std::vector<Sbp>& on_axis : operand.sbps) {
      // Splitting among matrices and splitting rows or columns of each give different products.
      const auto split = [&](Sbp sbp) { return sbp.dim < operand.matrix_dim ? 1 : 3; };
      for (const Sbp sbp : on_axis) {
        key.push_back(sbp.split() ? split(sbp) : sbp.partial() ? 2 : 0);
      }
    }
  }
  const auto [known, fresh] = known_.try_emplace({work.call.kernel, std::move(key)});
  if (!fresh) return known->second;
  std::vector<int> combination(axes, 0);
  do {
    known->second.push_back(SecondsWith(work, combination));
  } while (space_.Next(group, &combination));
  return known->second;
}

}  // namespace oneflow
