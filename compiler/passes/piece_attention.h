// Gathers the keys and values of attention in pieces of their heads. The gather of a piece runs
// beside the attention of the pieces before it; in the backward, so does the reduction of their
// gradients.
//
//   k, v -> gather -> attention(q) -> out
//
//   k, v -> part 0 -> gather -> attention(part 0 of q) -> join -> out
//        -> part 1 -> gather -> attention(part 1 of q) ->
//
// Groups of heads are independent, so no bit changes. All parts are taken before the first
// attention. So with overlap (lower/overlap.h) their gathers are entered one after the other, as
// soon as keys and values are there. Only the first of n pieces is waited for in full. Parts are
// copies on a device: without overlap pieces cost that and gain nothing.
//
// An axis that splits groups of heads, too, has a part of each piece: see the blocks of
// op/parts.cc.
#pragma once

#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Uses at most `pieces`, as many as divide the groups that a device has. Runs after infer_sbp,
// which chooses whether to gather, and before boxing. Extends `choice` to the new ops.
void PieceAttention(Graph* graph, int pieces, SbpChoice* choice);

}  // namespace oneflow
