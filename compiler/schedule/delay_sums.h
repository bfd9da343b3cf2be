// Puts the sums of gradients that are reduced with every micro-batch to where their reductions have
// had time to end.
//
// A reduction reads a full gradient and writes a part of it, on a stream of its own; a kernel of
// compute adds the part up. Right behind its gradient that kernel would wait for the reduction. It
// is moved behind the gradients of the next block, to just before those of the block after it, or
// to the end of its segment:
//
//   as lowered   dW1 sum1 dW2 sum2 dW3 sum3
//   after        dW1 dW2 sum1 dW3 sum2 sum3
//
// A sum is a position in an order, so it is a bound: where gradients are computed block by block,
// those of at most two blocks are held in full, however slow the link (docs/prefetch.md). Bits do
// not change: sums keep their order. Local boxing between a reduction and its sum, such as a slice
// of what an all-reduce gave, moves with the sum.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

// By actor: the one that writes the full gradient which this one adds up (or takes a part of) once
// it is reduced with its micro-batch; -1 if it does no such thing.
std::vector<int> FindReducedGradients(const Lowered& lowered);

// Reorders actors inside of segments of the backward.
void DelaySums(Lowered* lowered);

}  // namespace oneflow
