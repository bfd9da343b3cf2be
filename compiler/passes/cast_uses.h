// Casts a weight for each use, where it rests split as its master does: no cast copy is kept beside
// the master.
//
// mixed_precision casts a variable once a step (Phase::kPrepare), and what the cast writes is kept
// all step. Where the weight is gathered for each use, the part can be cast just before it is
// gathered:
//
//   once a step    w -> cast -> w.bf16, kept    F: gather -> y    B: gather -> dx
//   for each use   F: w -> cast -> gather -> y                    B: w -> cast -> gather -> dx
//
// There is one cast for the readers of a chunk in the forward, and one in the backward (a single
// one for both with `gather_shared`). A cast of the same part gives the same bits. A weight that is
// gathered once a step over some axis (`gather_once`) is cast once a step, before that.
#pragma once

#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Behind split_variables and recompute, no boxing yet. Extends `choice` to the casts.
void CastUses(Graph* graph, SbpChoice* choice);

}  // namespace oneflow
