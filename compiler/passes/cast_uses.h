// Casts a weight for each use if it rests split as its master does, so that no cast copy is kept
// beside the master.
//
// mixed_precision casts a variable once a step (Phase::kPrepare), and the result is kept all step.
// If the weight is gathered for each use, its part can be cast just before it is gathered:
//
//   once a step    w -> cast -> w.bf16, kept    F: gather -> y    B: gather -> dx
//   for each use   F: w -> cast -> gather -> y                    B: w -> cast -> gather -> dx
//
// There is one cast for the readers of a chunk in the forward, and one in the backward; with
// `gather_shared` a single one for both. A cast of the same part gives the same bits. A weight that
// is gathered once a step over some axis (`gather_once`) is cast once a step, before that.
#pragma once

#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Extends `choice` to the casts. Runs after split_variables and recompute; requires no boxing yet.
void CastUses(Graph* graph, SbpChoice* choice);

}  // namespace oneflow
