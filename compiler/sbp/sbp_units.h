// The ops that choose together on ONE mesh axis, and among what. Part of infer_sbp; what a choice
// costs is sbp_network.h's.
//
// A unit is the op or the ops that choose together: one op, an input with its replicas on other
// stages, or a variable with its replicas, what is prepared from it, its optimizer states and their
// updates. A label is a row of the table of each of its ops.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

// "(S(0), B) -> P".
std::string RowText(const Signature& row);

class SbpUnits {
 public:
  // `settled`: the choice on the axes before this one; tensors' sbp hold it, too. All must outlive
  // the result.
  static absl::StatusOr<SbpUnits> Make(const Graph& graph, const SbpChoice& settled,
                                       const SbpOptions& options, int axis);

  int size() const { return static_cast<int>(units_.size()); }
  int labels(int unit) const { return static_cast<int>(units_[unit].rows.size()); }
  const std::vector<OpId>& OpsOf(int unit) const { return units_[unit].ops; }
  int UnitOf(OpId op) const { return members_[op].unit; }
  // The op of which an op is the replica on another stage; itself if it is none. Only the first
  // costs, and has all readers: so the problem, hence the choice, is that of a single stage.
  OpId FirstOf(OpId op) const { return first_[op]; }
  // The row of an op if its unit has this label.
  const Signature& Row(OpId op, int label) const {
    const Member& member = members_[op];
    return table_[op][units_[member.unit].rows[label][member.index]];
  }

 private:
  struct Unit {
    std::vector<OpId> ops;
    std::vector<std::vector<int>> rows;  // label -> row of each op
  };
  struct Member {
    int unit = -1, index = -1;
  };

  SbpUnits(const Graph& graph, const SbpChoice& settled, const SbpOptions& options, int axis);
  void FindReplicas();
  void FindSplitPositions();
  absl::Status FillTable();
  absl::Status FillRows(OpId op);
  absl::Status NoRow(OpId op, const std::vector<Signature>& all) const;
  absl::Status NoSuchRow(OpId op, const std::string& row, const std::vector<Signature>& all) const;
  void FillUnits();
  absl::Status FillLabels(Unit* unit);
  bool Fits(OpId op, const Signature& row) const;
  bool MeetsConstraints(OpId op, const Signature& row) const;
  const std::string* FixedRow(OpId op) const;  // nullptr where it is free

  const Graph* graph_;
  const SbpChoice* settled_;
  const SbpOptions* options_;
  int axis_ = 0, devices_ = 1;
  bool split_positions_ = false;
  std::vector<OpId> first_;
  std::vector<std::vector<Signature>> table_;  // legal rows of each op
  std::vector<Unit> units_;
  std::vector<Member> members_;  // of each op
};

}  // namespace oneflow
