// The choice of signatures, on one mesh axis or on several at once, as a ChoiceNetwork: a variable
// for each unit and axis; terms for what ops compute and for what boxing each tensor takes, in
// picoseconds of a step on a device. Part of infer_sbp.
//
// Boxing on several axes is priced axis by axis, in mesh order, each time of what the axes before
// leave; readers that need the same on an axis share it there.
#pragma once

#include <functional>
#include <vector>

#include "compiler/passes/choice_network.h"
#include "compiler/passes/infer_sbp.h"
#include "compiler/passes/sbp_labels.h"
#include "compiler/passes/sbp_tables.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

inline constexpr double kCostsASecond = 1e12;
Cost CostOfSeconds(double seconds);

// What is chosen on one mesh: variable first + unit * axes + k is a unit's on axes()[k].
struct SbpProblem {
  const Graph& graph;  // on that mesh alone
  const SbpChoice& settled;
  const SbpOptions& options;
  const SbpLabels& labels;
  std::vector<TensorId> observed = {};  // what the run reads: sums must be taken
  std::vector<bool> elsewhere = {};  // ops that stand in for what another mesh makes; empty: none
  int first = 0;

  int Variable(int unit, int k) const {
    return first + unit * static_cast<int>(labels.axes().size()) + k;
  }
  int Variables() const { return Variable(labels.size(), 0) - first; }
  // How often ops of a phase fire in a step.
  double Fires(Phase phase) const;
  // An input or output of an op: what its row says of it.
  using Port = std::function<Sbp(const Signature&)>;
  // How it lies on axes()[k]; on the first `axes` of them together.
  End EndOn(OpId op, int k, const Port& port) const;
  End EndOver(OpId op, int axes, const Port& port) const;
};

// Readers that may share one boxing: those of a variable only within a phase, so that what is
// gathered from a split variable does not live from forward to backward. What the update reads of
// the micro-batches is read by nobody else (lower_to_actors), and needs no class of its own.
int SharingClass(const Op& producer, Phase reader);

// An observed tensor, or the loss, of a graph on one mesh.
std::vector<TensorId> ObservedBy(const Graph& graph);

// The variables of a problem; then its terms, which may add helpers, so variables of all come
// first.
void AddVariables(const SbpProblem& problem, ChoiceNetwork* network);
void AddTerms(const SbpProblem& problem, ChoiceNetwork* network, SbpTables* tables);

// Of one problem alone.
ChoiceNetwork SbpNetwork(const SbpProblem& problem);

}  // namespace oneflow
