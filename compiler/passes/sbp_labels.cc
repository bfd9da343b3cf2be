#include "compiler/passes/sbp_labels.h"

#include <algorithm>
#include <string>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<SbpLabels> SbpLabels::Make(const Graph& graph, const SbpChoice& settled,
                                          const SbpOptions& options, const std::vector<int>& axes) {
  SbpLabels labels;
  labels.axes_ = axes;
  for (const int axis : axes) {
    ASSIGN_OR_RETURN(SbpUnits units, SbpUnits::Make(graph, settled, options, axis));
    labels.units_.push_back(std::move(units));
  }
  labels.labels_.resize(labels.size());
  for (int unit = 0; unit < labels.size(); ++unit) {
    labels.Combine(graph, unit);
    if (labels.labels(unit) > 0) continue;
    return InputError("op " + graph.ops[labels.OpsOf(unit).front()].name,
                      "leaves some devices without an element, whatever is split",
                      "use a larger batch (or dimension) or smaller axes");
  }
  return labels;
}

void SbpLabels::Combine(const Graph& graph, int unit) {
  std::vector<std::vector<int>> all = {{}};
  for (const SbpUnits& units : units_) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& rows : all) {
      for (int row = 0; row < units.labels(unit); ++row) {
        longer.push_back(rows);
        longer.back().push_back(row);
      }
    }
    all = std::move(longer);
  }
  if (axes_.size() > 1) {
    std::erase_if(all, [&](const std::vector<int>& rows) { return !Fits(graph, unit, rows); });
  }
  labels_[unit] = std::move(all);
}

// Whether no dimension is cut into more parts than it has elements.
bool SbpLabels::Fits(const Graph& graph, int unit, const std::vector<int>& rows) const {
  const auto fits = [&](TensorId t, auto sbp_on) {
    for (size_t k = 0; k < rows.size(); ++k) {
      const Sbp cut = sbp_on(k);
      int64_t parts = 1;
      for (size_t j = 0; cut.split() && j < rows.size(); ++j) {
        if (sbp_on(j) == cut) parts *= graph.mesh.axes[axes_[j]].size;
      }
      if (cut.split() && parts > graph.tensors[t].shape.dims[cut.dim]) return false;
    }
    return true;
  };
  for (const OpId op : OpsOf(unit)) {
    const auto row = [&](size_t k) -> const Signature& { return units_[k].Row(op, rows[k]); };
    const Op& o = graph.ops[op];
    for (size_t i = 0; i < o.inputs.size(); ++i) {
      if (!fits(o.inputs[i], [&](size_t k) { return row(k).in[i]; })) return false;
    }
    for (size_t i = 0; i < o.outputs.size(); ++i) {
      if (!fits(o.outputs[i], [&](size_t k) { return row(k).out[i]; })) return false;
    }
  }
  return true;
}

}  // namespace oneflow
