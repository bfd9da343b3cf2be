// Op groups: the ops that choose together on ONE mesh axis, and the options of each group. Part of
// infer_sbp. It knows no costs (sbp_network.h does).
//
// A group is one op, or an input and its replicas on other stages, or a variable. A variable's
// group has its replicas, the ops of phase kPrepare that read it, its optimizer states and their
// updates. An option is one row of the signature table for each op of the group.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

// The text of a row: "(S(0), B) -> P".
std::string RowText(const Signature& row);

class OpGroups {
 public:
  // Makes the groups of an axis. `previous`: the choice on the axes before this one, as in the
  // tensors' sbp. All arguments must outlive the result.
  static absl::StatusOr<OpGroups> Make(const Graph& graph, const SbpChoice& previous,
                                       const SbpOptions& options, int axis);

  int size() const { return static_cast<int>(groups_.size()); }
  int option_count(int group) const { return static_cast<int>(groups_[group].rows.size()); }
  const std::vector<OpId>& ops(int group) const { return groups_[group].ops; }
  int GroupIndex(OpId op) const { return members_[op].group; }
  // The op whose replica on another stage `op` is; `op` itself if it is no replica. Only originals
  // have costs and readers, so the problem, and with it the choice, is that of a single stage.
  OpId Original(OpId op) const { return first_[op]; }
  // The row of an op under an option of its group.
  const Signature& Row(OpId op, int option) const {
    const Member& member = members_[op];
    return table_[op][groups_[member.group].rows[option][member.index]];
  }

 private:
  struct Group {
    std::vector<OpId> ops;
    std::vector<std::vector<int>> rows;  // option -> row of each op
  };
  struct Member {
    int group = -1, index = -1;
  };

  OpGroups(const Graph& graph, const SbpChoice& previous, const SbpOptions& options, int axis);
  void FindReplicas();
  void FindSplitPositions();
  void FindParts();
  absl::Status FillTable();
  absl::Status FillRows(OpId op);
  absl::Status NoRow(OpId op, const std::vector<Signature>& all) const;
  // Names the other axes that split what `row` splits: ", and axis b of 2 splits dimension 0, too".
  std::string OtherSplits(OpId op, const Signature& row) const;
  absl::Status NoSuchRow(OpId op, const std::string& row, const std::vector<Signature>& all) const;
  void FillGroups();
  absl::Status FillOptions(Group* group);
  bool Fits(OpId op, const Signature& row) const;
  bool MeetsConstraints(OpId op, const Signature& row) const;
  bool ComputesParts(OpId op, const Signature& row) const;
  const std::string* FixedRow(OpId op) const;  // nullptr where it is free

  const Graph* graph_;
  const SbpChoice* previous_;
  const SbpOptions* options_;
  int axis_ = 0, devices_ = 1;
  bool split_positions_ = false;
  std::vector<std::optional<Sbp>> parts_;  // of tensors of weights that products must split
  std::vector<OpId> first_;
  std::vector<std::vector<Signature>> table_;  // legal rows of each op
  std::vector<Group> groups_;
  std::vector<Member> members_;  // of each op
};

}  // namespace oneflow
