#include "compiler/passes/op_prices.h"

#include <numeric>
#include <utility>

#include "compiler/passes/device_prices.h"
#include "compiler/passes/rewrite.h"
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
    Port port{static_cast<double>(BytesOf(graph_.tensors[t])) / PartsBefore(settled), {}};
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

// `work`: flops before these axes divide them.
double OpPrices::SecondsWith(KernelCall call, const std::vector<Port>& ports, size_t inputs,
                             const std::vector<int>& label) const {
  double work = call.flops;
  const int axes = static_cast<int>(label.size());
  std::vector<double> touched;
  std::vector<bool> split(axes, false);
  for (const Port& port : ports) {
    double bytes = port.bytes;
    bool partial = false;
    for (int k = 0; k < axes; ++k) {
      const Sbp sbp = port.lies[k][label[k]];
      partial = partial || sbp.partial();
      split[k] = split[k] || sbp.split();
      if (sbp.split()) bytes /= Devices(k);
    }
    touched.push_back(partial ? 1.5 * bytes : bytes);
  }
  for (int k = 0; k < axes; ++k) {
    if (split[k]) work /= Devices(k);
  }
  const auto outputs = touched.begin() + static_cast<int64_t>(inputs);
  const double written = std::accumulate(outputs, touched.end(), 0.0);
  const double first = outputs == touched.end() ? 0 : *outputs;
  touched.resize(inputs);
  call.bytes = BytesRead(call.kernel, std::move(touched), first) + written;
  call.flops = work;
  return cost_.Seconds(call);
}

const std::vector<double>& OpPrices::SecondsOf(OpId id) {
  const OpView view{graph_, graph_.ops[id]};
  const int unit = labels_.UnitOf(id), axes = static_cast<int>(labels_.axes().size());
  const auto& flops = FindOpDef(view.op.kind)->flops;
  const bool computes = !IsVariable(view.op);
  const double work = computes && flops != nullptr ? flops(view) / ShareBefore(id) : 0;
  const std::vector<Port> ports = computes ? PortsOf(id) : std::vector<Port>{};
  KernelCall call{view.op.kind, DType::kF32, work};
  const std::vector<TensorId>& typed = view.op.inputs.empty() ? view.op.outputs : view.op.inputs;
  if (!typed.empty()) call.dtype = graph_.tensors[typed[0]].dtype;
  std::vector<double> key = {work, static_cast<double>(call.dtype)};
  for (int k = 0; k < axes; ++k) key.push_back(labels_.labels(unit, k));
  for (const Port& port : ports) {
    key.push_back(port.bytes);
    for (const std::vector<Sbp>& on_axis : port.lies) {
      for (const Sbp sbp : on_axis) key.push_back(sbp.split() ? 1 : sbp.partial() ? 2 : 0);
    }
  }
  const auto [known, fresh] = known_.try_emplace({view.op.kind, std::move(key)});
  if (!fresh) return known->second;
  std::vector<int> label(axes, 0);
  do {
    known->second.push_back(SecondsWith(call, ports, view.op.inputs.size(), label));
  } while (labels_.Next(unit, &label));
  return known->second;
}

}  // namespace oneflow
