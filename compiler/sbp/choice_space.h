// The choices on SEVERAL mesh axes at once: a group chooses a combination, one option of OpGroups
// on each axis. A combination fits if it leaves every device at least one element. With one axis
// all combinations fit. Part of infer_sbp.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/op_groups.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

// Groups with more combinations than this are not searched on all axes at once.
inline constexpr double kMaxCombinations = 1 << 18;

class ChoiceSpace {
 public:
  // Makes the space of `axes`, ascending; `previous`: the choice on axes before them. All arguments
  // but `axes` must outlive the result.
  static absl::StatusOr<ChoiceSpace> Make(const Graph& graph, const SbpChoice& previous,
                                          const SbpOptions& options, std::vector<int> axes);

  const std::vector<int>& axes() const { return axes_; }
  int size() const { return groups_.front().size(); }
  // Options of a group on axes()[k].
  int option_count(int group, int k) const { return groups_[k].option_count(group); }
  const std::vector<OpId>& ops(int group) const { return groups_.front().ops(group); }
  int GroupIndex(OpId op) const { return groups_.front().GroupIndex(op); }
  OpId Original(OpId op) const { return groups_.front().Original(op); }
  // The row of an op on axes()[k] under an option of its group there.
  const Signature& Row(OpId op, int k, int option) const { return groups_[k].Row(op, option); }

  // Counts the combinations of a group on the first `axes` axes, fitting or not.
  double Combinations(int group, int axes) const;
  // Advances to the next combination, the last axis fastest; false after the last.
  bool Next(int group, std::vector<int>* combination) const;
  // True if no dimension is split into more parts than it has elements.
  bool Fits(int group, const std::vector<int>& combination) const;

 private:
  ChoiceSpace(const Graph& graph, std::vector<int> axes) : graph_(&graph), axes_(std::move(axes)) {}
  absl::Status CheckSomeFit(int group) const;

  const Graph* graph_;
  std::vector<int> axes_;
  std::vector<OpGroups> groups_;  // of each axis
};

}  // namespace oneflow
