// The ops that choose together on SEVERAL mesh axes at once, and among what: a unit chooses a label
// of SbpUnits on each axis. Those combinations go together that leave every device something. With
// one axis all do. Part of infer_sbp.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/sbp_units.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

// Combinations of a unit's labels, at most, that are looked at together.
inline constexpr double kMostWays = 1 << 18;

class SbpLabels {
 public:
  // `axes`, ascending; `settled`: the choice on axes before them. All but `axes` must outlive the
  // result.
  static absl::StatusOr<SbpLabels> Make(const Graph& graph, const SbpChoice& settled,
                                        const SbpOptions& options, std::vector<int> axes);

  const std::vector<int>& axes() const { return axes_; }
  int size() const { return units_.front().size(); }
  // On axes()[k].
  int labels(int unit, int k) const { return units_[k].labels(unit); }
  const std::vector<OpId>& OpsOf(int unit) const { return units_.front().OpsOf(unit); }
  int UnitOf(OpId op) const { return units_.front().UnitOf(op); }
  OpId FirstOf(OpId op) const { return units_.front().FirstOf(op); }
  // The row of an op on axes()[k] if its unit has this label there.
  const Signature& Row(OpId op, int k, int label) const { return units_[k].Row(op, label); }

  // How many combinations of labels on the first `axes` axes a unit has, fitting or not.
  double Combinations(int unit, int axes) const;
  // Goes on to the next one, the last axis fastest; false after the last.
  bool Next(int unit, std::vector<int>* label) const;
  // Whether they go together: no dimension is split into more parts than it has elements.
  bool Fits(int unit, const std::vector<int>& label) const;

 private:
  SbpLabels(const Graph& graph, std::vector<int> axes) : graph_(&graph), axes_(std::move(axes)) {}
  absl::Status CheckSomeFit(int unit) const;

  const Graph* graph_;
  std::vector<int> axes_;
  std::vector<SbpUnits> units_;  // of each axis
};

}  // namespace oneflow
