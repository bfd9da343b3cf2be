// Assigns blocks to stages so that the slowest stage is as fast as can be. Part of annotate_model.
#pragma once

#include <vector>

namespace oneflow {

// The costs of a step, in any unit.
struct BlockCosts {
  std::vector<double> blocks;  // of each, in order; each above 0
  double first = 0;            // of the ops before the first block, on stage 0: the embedding
  double last = 0;             // of the ops after the last block, on the last stage: the head
};

// Returns the stage of each block: ascending, each stage with a block at least. The result
// minimises the cost of the costliest stage; among those results the sum of squares; among those
// the first stages have more blocks. Requires as many blocks as stages.
//
//   BalancedStages({.blocks = {1, 1, 1, 1}, .last = 2}, 2)  ->  0 0 0 1
std::vector<int> BalancedStages(const BlockCosts& costs, int stages);

}  // namespace oneflow
