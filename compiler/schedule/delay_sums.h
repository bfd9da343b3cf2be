// Delays the sums of gradients that are reduced with every micro-batch, so that their reductions
// have time to end.
//
// A reduction reads a full gradient and writes a part of it, on a stream of its own; a kernel of
// compute adds the part up. Directly behind its gradient that kernel would wait for the reduction.
// It moves behind the gradients of the next block, to just before those of the block after it, or
// to the end of its segment:
//
//   as lowered   dW1 sum1 dW2 sum2 dW3 sum3
//   after        dW1 dW2 sum1 dW3 sum2 sum3
//
// A sum has a position in an order, which bounds memory. If gradients are computed block by block,
// those of at most two blocks are held in full, however slow the link (docs/prefetch.md). Bits do
// not change, because sums keep their order. Local boxing between a reduction and its sum, such as
// a slice of an all-reduce's result, moves with the sum.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

// Returns by actor the actor whose full gradient it adds up (or takes a part of) after a reduction
// with its micro-batch; -1 if there is none.
std::vector<int> FindReducedGradients(const Lowered& lowered);

// Reorders actors inside segments of the backward.
void DelaySums(Lowered* lowered);

}  // namespace oneflow
