#include "compiler/sbp/sbp_labels.h"

#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<SbpLabels> SbpLabels::Make(const Graph& graph, const SbpChoice& settled,
                                          const SbpOptions& options, std::vector<int> axes) {
  SbpLabels labels(graph, std::move(axes));
  for (const int axis : labels.axes_) {
    ASSIGN_OR_RETURN(SbpUnits units, SbpUnits::Make(graph, settled, options, axis));
    labels.units_.push_back(std::move(units));
  }
  for (int unit = 0; unit < labels.size(); ++unit) {
    // Where there are too many ways to look at, axis after axis finds out.
    if (labels.Combinations(unit, labels.axes_.size()) > kMostWays) continue;
    RETURN_IF_ERROR(labels.CheckSomeFit(unit));
  }
  return labels;
}

absl::Status SbpLabels::CheckSomeFit(int unit) const {
  std::vector<int> label(axes_.size(), 0);
  do {
    if (Fits(unit, label)) return absl::OkStatus();
  } while (Next(unit, &label));
  return InputError(Where(graph_->ops[OpsOf(unit).front()]),
                    "leaves some devices without an element, whatever is split",
                    "use a larger batch (or dimension) or smaller axes");
}

double SbpLabels::Combinations(int unit, int axes) const {
  double combinations = 1;
  for (int k = 0; k < axes; ++k) combinations *= labels(unit, k);
  return combinations;
}

bool SbpLabels::Next(int unit, std::vector<int>* label) const {
  int k = static_cast<int>(label->size()) - 1;
  while (k >= 0 && ++(*label)[k] == labels(unit, k)) (*label)[k--] = 0;
  return k >= 0;
}

bool SbpLabels::Fits(int unit, const std::vector<int>& label) const {
  if (label.size() == 1) return true;
  const auto fits = [&](TensorId t, auto sbp_on) {
    for (size_t k = 0; k < label.size(); ++k) {
      const Sbp kind = sbp_on(k);
      int64_t parts = 1;
      for (size_t j = 0; kind.split() && j < label.size(); ++j) {
        if (sbp_on(j) == kind) parts *= graph_->mesh.axes[axes_[j]].size;
      }
      if (kind.split() && parts > graph_->tensors[t].shape.dims[kind.dim]) return false;
    }
    return true;
  };
  for (const OpId id : OpsOf(unit)) {
    const auto row = [&](size_t k) -> const Signature& { return Row(id, k, label[k]); };
    const Op& op = graph_->ops[id];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!fits(op.inputs[i], [&](size_t k) { return row(k).in[i]; })) return false;
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (!fits(op.outputs[i], [&](size_t k) { return row(k).out[i]; })) return false;
    }
  }
  return true;
}

}  // namespace oneflow
