#include "compiler/sbp/op_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/cost/call_bytes.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

double OpPrices::PartsBefore(const NdSbp& settled) const {
  double parts = 1;
  for (int b = 0; b < labels_.axes().front(); ++b) {
    if (settled[b].split()) parts *= graph_.mesh.axes[b].size;
  }
  return parts;
}

std::vector<OpPrices::Port> OpPrices::PortsOf(OpId id) const {
  const Op& op = graph_.ops[id];
  const int unit = labels_.UnitOf(id);
  std::vector<Port> ports;
  const auto add = [&](TensorId t, const NdSbp& settled, auto sbp_in) {
    const Tensor& tensor = graph_.tensors[t];
    Port port{static_cast<double>(TensorBytes(tensor)) / PartsBefore(settled)};
    port.elements = port.bytes / static_cast<double>(SizeOf(tensor.dtype));
    port.matrix_dim = std::max(0, static_cast<int>(tensor.shape.dims.size()) - 2);
    for (int d = 0; d < port.matrix_dim; ++d) {
      port.matrices *= static_cast<double>(tensor.shape.dims[d]);
    }
    for (int b = 0; b < labels_.axes().front(); ++b) {
      if (settled[b].split() && settled[b].dim < port.matrix_dim) {
        port.matrices /= static_cast<double>(graph_.mesh.axes[b].size);
      }
    }
    for (int k = 0; k < static_cast<int>(labels_.axes().size()); ++k) {
      port.lies.emplace_back();
      for (int l = 0; l < labels_.labels(unit, k); ++l) {
        port.lies[k].push_back(sbp_in(labels_.Row(id, k, l)));
      }
    }
    ports.push_back(std::move(port));
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    add(op.inputs[i], settled_.op_inputs[id][i], [&](const Signature& row) { return row.in[i]; });
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    add(op.outputs[i], graph_.tensors[op.outputs[i]].sbp,
        [&](const Signature& row) { return row.out[i]; });
  }
  return ports;
}

// Devices among which the axes before divide the op's work: all along which something is cut.
double OpPrices::ShareBefore(OpId id) const {
  const Op& op = graph_.ops[id];
  double share = 1;
  for (int b = 0; b < labels_.axes().front(); ++b) {
    bool split = false;
    for (const NdSbp& settled : settled_.op_inputs[id]) split = split || settled[b].split();
    for (const TensorId t : op.outputs) split = split || graph_.tensors[t].sbp[b].split();
    if (split) share *= graph_.mesh.axes[b].size;
  }
  return share;
}

double OpPrices::Devices(int k) const { return graph_.mesh.axes[labels_.axes()[k]].size; }

double OpPrices::SecondsWith(const Work& work, const std::vector<int>& label) const {
  const int axes = static_cast<int>(label.size());
  std::vector<double> read;
  double written = 0, first_written = 0;
  std::vector<bool> split(axes, false);
  for (size_t i = 0; i < work.ports.size(); ++i) {
    const Port& port = work.ports[i];
    double bytes = port.bytes;
    for (int k = 0; k < axes; ++k) {
      const Sbp sbp = port.lies[k][label[k]];
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
  SetResults(work, label, &call);
  return cost_.Seconds(call);
}

// The rows and columns of a product's results on a device, from its elements (actor_cost.cc).
void OpPrices::SetResults(const Work& work, const std::vector<int>& label, CallWork* call) const {
  if (work.products == Products::kNone || work.products == Products::kOwn) return;
  if (work.inputs < 2 || work.ports.size() <= work.inputs) return;
  const auto local = [&](const Port& port, double size, int dims) {
    for (size_t k = 0; k < label.size(); ++k) {
      const Sbp sbp = port.lies[k][label[k]];
      if (sbp.split() && sbp.dim < dims) size /= Devices(static_cast<int>(k));
    }
    return size;
  };
  const auto elements = [&](const Port& port) {
    return local(port, port.elements, std::numeric_limits<int>::max());
  };
  const Port& out = work.ports[work.inputs];
  const double products =
      work.products == Products::kBatch ? local(out, out.matrices, out.matrix_dim) : 1;
  const double left = elements(work.ports[0]) / products;
  const double right = elements(work.ports[1]) / products, result = elements(out) / products;
  if (left <= 0 || right <= 0 || result <= 0) return;
  call->products = products;
  call->rows = std::round(std::sqrt(left * result / right));
  call->columns = std::round(std::sqrt(right * result / left));
}

OpPrices::Work OpPrices::WorkOf(OpId id) const {
  const OpView view{graph_, graph_.ops[id]};
  Work work{{.kernel = view.op.kind}, {}, view.op.inputs.size()};
  if (IsVariable(view.op)) return work;
  const std::vector<TensorId>& typed = view.op.inputs.empty() ? view.op.outputs : view.op.inputs;
  if (!typed.empty()) work.call.dtype = graph_.tensors[typed[0]].dtype;
  work.products = FindOpDef(view.op.kind)->products;
  const auto& flops = FindOpDef(view.op.kind)->flops;
  if (flops != nullptr) work.call.flops = flops(view) / ShareBefore(id);
  work.ports = PortsOf(id);
  return work;
}

const std::vector<double>& OpPrices::SecondsOf(OpId id) {
  const int unit = labels_.UnitOf(id), axes = static_cast<int>(labels_.axes().size());
  const Work work = WorkOf(id);
  std::vector<double> key = {work.call.flops, static_cast<double>(work.call.dtype)};
  for (int k = 0; k < axes; ++k) key.push_back(labels_.labels(unit, k));
  for (const Port& port : work.ports) {
    key.push_back(port.bytes);
    key.push_back(port.matrices);
    for (const std::vector<Sbp>& on_axis : port.lies) {
      // Whether whole matrices are divided among devices, or rows and columns of each.
      const auto split = [&](Sbp sbp) { return sbp.dim < port.matrix_dim ? 1 : 3; };
      for (const Sbp sbp : on_axis) {
        key.push_back(sbp.split() ? split(sbp) : sbp.partial() ? 2 : 0);
      }
    }
  }
  const auto [known, fresh] = known_.try_emplace({work.call.kernel, std::move(key)});
  if (!fresh) return known->second;
  std::vector<int> label(axes, 0);
  do {
    known->second.push_back(SecondsWith(work, label));
  } while (labels_.Next(unit, &label));
  return known->second;
}

}  // namespace oneflow
