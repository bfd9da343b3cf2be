// The choice of signatures, on one mesh axis or on several at once, as a ChoiceNetwork. It has one
// variable for each group and axis. Its terms are the computation of each group and the boxing of
// each tensor, in seconds of a step on a device. Part of infer_sbp.
//
// The costs of boxing on several axes are added axis by axis, in mesh order; each axis works on the
// part that the previous axes leave. Readers that need the same layout on an axis share the boxing
// there.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/sbp/choice_network.h"
#include "compiler/sbp/choice_space.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The problem of one search. Variable group * axes + k is the choice of a group on axes()[k].
struct SbpProblem {
  const Graph& graph;
  const SbpChoice& previous;
  const SbpOptions& options;
  const ChoiceSpace& space;
  std::vector<TensorId> observed = {};  // tensors that the run reads: partial sums must be reduced

  int Variable(int group, int k) const { return group * static_cast<int>(space.axes().size()) + k; }
};

// The tensors of a graph that the run reads: its outputs and its loss.
std::vector<TensorId> FindObserved(const Graph& graph);

// Terms are seconds of a step, as integers in a unit so large that no sum reaches kForbidden. The
// last terms are no times: each charges a gradient whose layout does not mirror its tensor's, so
// that such a layout is chosen only if nothing else fits.
struct SbpCosts {
  ChoiceNetwork network;
  size_t first_mirror = 0;       // index of the first mirror charge
  double costs_a_second = 1e12;  // the unit is a picosecond, unless a step takes days
};
SbpCosts SbpNetwork(const SbpProblem& problem);

}  // namespace oneflow
