// Recompute: forward ops of a scope (Op::recompute) are recomputed in the backward, so that their
// outputs need not be kept in between (Chen et al. 2016; Korthikanti et al. 2022).
//
// The clones of a scope stand together in the backward, before the first op there that reads one of
// them. Readers in the backward read the clones. The clones read the inputs of the scope, which are
// kept.
//
// An output of a scope is a tensor that another forward op reads. It is kept if recomputing it is
// expensive. Expensive is an op of more than kDear operations for each element it writes, such as a
// matrix product, that nothing else in the scope needs. So a block as a scope keeps its output,
// which the next block keeps as its input anyway; a gelu as its own scope does not.
//
// An op that decides (OpDef::decides), such as the router's choice, has no clone. Its outputs are
// kept, even if the ops before it are recomputed for others.
//
// The clones have the layouts and the attributes of their originals (dropout masks are named after
// the original) and run the same kernels, so not a bit changes (law 6).
#pragma once

#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

inline constexpr double kDear = 20;

// Extends `choice` to the clones and adds notes. Requires inferred SBP and no boxing yet. Ops with
// one scope name on several stages or chunks are one scope on each.
void Recompute(Graph* graph, SbpChoice* choice);

}  // namespace oneflow
