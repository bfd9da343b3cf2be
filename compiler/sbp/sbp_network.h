// The choice of signatures, on one mesh axis or on several at once, as a ChoiceNetwork: a variable
// for each unit and axis; terms for what ops compute and for what boxing each tensor takes, in
// seconds of a step on a device. Part of infer_sbp.
//
// Boxing on several axes is priced axis by axis, in mesh order, each time of what the axes before
// leave; readers that need the same on an axis share it there.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/sbp/choice_network.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/sbp/sbp_labels.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// What is chosen: variable unit * axes + k is a unit's on axes()[k].
struct SbpProblem {
  const Graph& graph;
  const SbpChoice& settled;
  const SbpOptions& options;
  const SbpLabels& labels;
  std::vector<TensorId> observed = {};  // what the run reads: sums must be taken

  int Variable(int unit, int k) const { return unit * static_cast<int>(labels.axes().size()) + k; }
};

// What the run reads of a graph: its outputs and its loss.
std::vector<TensorId> ObservedBy(const Graph& graph);

// Its terms are seconds of a step, in whole numbers of a unit that is so small that no sum reaches
// kNever: of each op, and of each way of boxing a tensor. Last come those that are none: what a
// gradient that is not laid out as its tensor is charged, so that none is but where nothing else
// fits.
struct SbpCosts {
  ChoiceNetwork network;
  size_t first_mirror = 0;       // the first of the last terms
  double costs_a_second = 1e12;  // the unit: picoseconds, unless a step takes days
};
SbpCosts SbpNetwork(const SbpProblem& problem);

}  // namespace oneflow
