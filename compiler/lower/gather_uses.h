// Uses of gathered weights: what is gathered together to run ahead of compute (docs/prefetch.md).
//
// A use is a block of the model in the forward or the backward of a chunk: all weights that it
// reads there. Outside of the blocks, weights that are read one after another are a use as long as
// they take few bytes more than the largest one. A weight that is read in places far apart, such as
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
  // Ops of lane kGather. Each list is one exchange of several tensors: the same primitive along the
  // same axes. None waits for a later one.
  std::vector<std::vector<OpId>> exchanges;
};

// The ops of lane kGather, each in one use. Uses of one stage, phase and chunk follow each other in
// the order in which ops first read what they gather.
std::vector<GatherUse> FindGatherUses(const Graph& graph, const std::vector<Lane>& lanes);

}  // namespace oneflow
