// Recompute: forward ops of a scope (Op::recompute) are computed again in the backward, so that
// what they make need not be kept in between (Chen et al. 2016; Korthikanti et al. 2022).
//
// A scope's clones stand together in the backward, before the first op there that reads one of
// them; readers in the backward read the clones. They read what the scope reads, which is kept.
//
// An output of a scope (another forward op reads it) is kept if recomputing it is expensive: where
// it takes an op that does more than kDear operations for each element it writes, matrix products
// in short, that nothing else in the scope needs again. So a block as a scope keeps its output,
// which the next block keeps as its input anyway; a gelu as a scope of its own does not.
//
// The clones have the layouts of their originals, have their attributes (dropout masks are named
// after the original) and run the same kernels: not a bit changes (law 6).
#pragma once

#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

inline constexpr double kDear = 20;

// Extends `choice` to the clones and notes what it did. Requires inferred SBP and no boxing yet.
// Ops of one name of scope on several stages or chunks are a scope each.
void Recompute(Graph* graph, SbpChoice* choice);

}  // namespace oneflow
