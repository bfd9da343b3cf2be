#include "compiler/sbp/choice_space.h"

#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<ChoiceSpace> ChoiceSpace::Make(const Graph& graph, const SbpChoice& previous,
                                              const SbpOptions& options, std::vector<int> axes) {
  ChoiceSpace space(graph, std::move(axes));
  for (const int axis : space.axes_) {
    ASSIGN_OR_RETURN(OpGroups groups, OpGroups::Make(graph, previous, options, axis));
    space.groups_.push_back(std::move(groups));
  }
  for (int group = 0; group < space.size(); ++group) {
    // If there are too many combinations to enumerate, the search axis by axis finds an error.
    if (space.Combinations(group, space.axes_.size()) > kMaxCombinations) continue;
    RETURN_IF_ERROR(space.CheckSomeFit(group));
  }
  return space;
}

absl::Status ChoiceSpace::CheckSomeFit(int group) const {
  std::vector<int> combination(axes_.size(), 0);
  do {
    if (Fits(group, combination)) return absl::OkStatus();
  } while (Next(group, &combination));
  return InputError(Where(graph_->ops[ops(group).front()]),
                    "leaves some devices without an element, whatever is split",
                    "use a larger batch (or dimension) or smaller axes");
}

double ChoiceSpace::Combinations(int group, int axes) const {
  double combinations = 1;
  for (int k = 0; k < axes; ++k) combinations *= option_count(group, k);
  return combinations;
}

bool ChoiceSpace::Next(int group, std::vector<int>* combination) const {
  int k = static_cast<int>(combination->size()) - 1;
  while (k >= 0 && ++(*combination)[k] == option_count(group, k)) (*combination)[k--] = 0;
  return k >= 0;
}

bool ChoiceSpace::Fits(int group, const std::vector<int>& combination) const {
  if (combination.size() == 1) return true;
  const auto fits = [&](TensorId t, auto sbp_on) {
    for (size_t k = 0; k < combination.size(); ++k) {
      const Sbp kind = sbp_on(k);
      int64_t parts = 1;
      for (size_t j = 0; kind.split() && j < combination.size(); ++j) {
        if (sbp_on(j) == kind) parts *= graph_->mesh.axes[axes_[j]].size;
      }
      if (kind.split() && parts > graph_->tensors[t].shape.dims[kind.dim]) return false;
    }
    return true;
  };
  for (const OpId id : ops(group)) {
    const auto row = [&](size_t k) -> const Signature& { return Row(id, k, combination[k]); };
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
