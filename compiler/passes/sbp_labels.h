// The ops that choose together on SEVERAL mesh axes at once, and among what: the labels of a unit
// are the combinations of its rows on each axis that leave every device something. With one axis
// they are those of SbpUnits. Part of infer_sbp.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/passes/infer_sbp.h"
#include "compiler/passes/sbp_units.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

class SbpLabels {
 public:
  // `axes`, ascending; `settled`: the choice on axes before them. All but `axes` must outlive the
  // result.
  static absl::StatusOr<SbpLabels> Make(const Graph& graph, const SbpChoice& settled,
                                        const SbpOptions& options, const std::vector<int>& axes);

  const std::vector<int>& axes() const { return axes_; }
  int size() const { return units_.front().size(); }
  int labels(int unit) const { return static_cast<int>(labels_[unit].size()); }
  const std::vector<OpId>& OpsOf(int unit) const { return units_.front().OpsOf(unit); }
  int UnitOf(OpId op) const { return units_.front().UnitOf(op); }
  OpId FirstOf(OpId op) const { return units_.front().FirstOf(op); }
  // The row of an op on axes()[k] if its unit has this label.
  const Signature& Row(OpId op, int label, int k) const {
    return units_[k].Row(op, labels_[UnitOf(op)][label][k]);
  }

 private:
  SbpLabels() = default;
  void Combine(const Graph& graph, int unit);
  bool Fits(const Graph& graph, int unit, const std::vector<int>& rows) const;

  std::vector<int> axes_;
  std::vector<SbpUnits> units_;                        // of each axis
  std::vector<std::vector<std::vector<int>>> labels_;  // of each unit: a label on each axis
};

}  // namespace oneflow
