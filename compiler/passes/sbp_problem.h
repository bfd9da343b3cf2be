// The choice of signatures on ONE mesh axis as an optimisation problem: units with labels, a price
// of each label by itself and a price of each tensor given the labels around it. Part of infer_sbp;
// it knows the graph, the search (sbp_search.h) only knows this.
//
// A unit is the op or the ops that choose together: one op, an input with its replicas on other
// stages, or a variable with its replicas, what is prepared from it, its optimizer states and their
// updates.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/passes/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

class SbpProblem {
 public:
  // `settled`: the choice on the axes before this one; tensors' sbp hold it, too.
  static absl::StatusOr<SbpProblem> Make(const Graph& graph, const SbpChoice& settled,
                                         const SbpOptions& options, int axis);

  int units() const { return static_cast<int>(units_.size()); }
  int labels(int unit) const { return static_cast<int>(units_[unit].price.size()); }
  double UnitPrice(int unit, int label) const { return units_[unit].price[label]; }
  const std::vector<TensorId>& TensorsOf(int unit) const { return units_[unit].tensors; }
  const std::vector<int>& NeighboursOf(int unit) const { return units_[unit].neighbours; }
  // Whether a unit has no inputs, so that its readers should say how it lies.
  bool IsSource(int unit) const { return units_[unit].source; }

  // Boxing price of a tensor. Units labelled -1 have not chosen: they cost nothing.
  double TensorPrice(TensorId t, const std::vector<int>& label) const;

  const Signature& Chosen(OpId op, const std::vector<int>& label) const {
    const Member& member = members_[op];
    return table_[op][units_[member.unit].rows[label[member.unit]][member.index]];
  }

 private:
  struct Unit {
    std::vector<OpId> ops;
    std::vector<std::vector<int>> rows;  // label -> row of each op
    std::vector<double> price;           // label -> compute
    std::vector<TensorId> tensors;
    std::vector<int> neighbours;
    bool source = false;
  };
  struct Member {
    int unit = -1, index = -1;
  };
  // Readers of a tensor that share its boxings: of one sharing class.
  struct Readers {
    std::vector<Use> uses;
    double fires = 1;
  };
  // What the price of a tensor is made of, gathered once: the search asks millions of times.
  struct Edge {
    OpId producer = -1;
    int output = 0;
    double bytes = 0, copies = 1;
    bool variable = false;  // or prepared from one
    double gather = 1;      // factor on un-splitting
    bool observed = false;  // the loss or an output: must be whole for the run
    std::vector<Readers> readers;
    GradientMirror mirror;  // if mirror.grad >= 0
    OpId mirror_chooser = -1;
    bool mirror_variable = false;
  };

  SbpProblem(const Graph& graph, const SbpChoice& settled, const SbpOptions& options, int axis);
  void FindReplicas();
  absl::Status FillTable();
  absl::Status FillRows(OpId op);
  absl::Status NoRow(OpId op, const std::vector<Signature>& all) const;
  void FillUnits();
  absl::Status FillLabels(Unit* unit);
  void FillNeighbours();
  void FillEdges();
  bool Fits(OpId op, const Signature& row) const;
  bool MeetsConstraints(OpId op, const Signature& row) const;
  double Compute(OpId op, const Signature& row) const;
  double Copies(const NdSbp& sbp) const;
  double Fires(Phase phase) const;
  double MirrorPrice(const Edge& edge, Sbp sbp, const std::vector<int>& label) const;
  double ReadersPrice(const Edge& edge, const Readers& readers, Sbp from,
                      const std::vector<int>& label) const;

  const Graph* graph_;
  const SbpChoice* settled_;
  const SbpOptions* options_;
  int axis_ = 0, devices_ = 1;
  // The op of which an op is the replica on another stage; itself if it is none. Only the first
  // has a price, and all readers: so the problem, hence the choice, is that of a single stage.
  std::vector<OpId> first_;
  std::vector<std::vector<Signature>> table_;  // legal rows of each op
  std::vector<Unit> units_;
  std::vector<Member> members_;  // of each op
  std::vector<double> work_;     // of each op, by its dearest row
  std::vector<Edge> edges_;      // of each tensor
};

}  // namespace oneflow
