// Uses of gathered weights: the weights that are gathered together to run ahead of compute
// (docs/prefetch.md).
//
// A use is a block of the model in the forward or the backward of a chunk: all weights that it
// reads there. Outside of the blocks, weights that are read one after another are one use as long
// as they take few bytes more than the largest. A weight that is read in places far apart, such as
// a tied embedding, is a use of its own. Exchanges of a weight of which one reads another are in
// one use.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct GatherUse {
  // Casts of parts that the exchanges gather.
  std::vector<OpId> casts;
  // Ops of lane kGather. Each list is one exchange of several tensors, by the same primitive along
  // the same axes. No list waits for a later one.
  std::vector<std::vector<OpId>> exchanges;
};

// Returns the ops of lane kGather, each in one use. Uses of one stage, phase and chunk are in the
// order in which ops first read their weights.
std::vector<GatherUse> FindGatherUses(const Graph& graph, const std::vector<Lane>& lanes);

}  // namespace oneflow
