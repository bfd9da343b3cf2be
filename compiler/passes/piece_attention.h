// Attention whose keys and values are gathered, in pieces of their heads: the gather of a piece
// runs beside the attention of the pieces before it, and so does, in the backward, the reduction of
// their gradients.
//
//   k, v -> gather -> attention(q) -> out
//
//   k, v -> part 0 -> gather -> attention(part 0 of q) -> join -> out
//        -> part 1 -> gather -> attention(part 1 of q) ->
//
// Groups of heads are independent, so no bit changes. All parts are taken before the first
// attention, so that with overlap (lower/overlap.h) their gathers are entered one after the other
// as soon as keys and values are there, and of n pieces only the first is waited for in full. Parts
// are copies on a device: without overlap pieces cost that and gain nothing.
//
// An axis that splits groups of heads, too, has a part of each piece: the blocks of op/parts.cc.
#pragma once

#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// At most so many pieces: as many as divide the groups that a device has. Behind infer_sbp, which
// has chosen to gather or not; no boxing yet. Extends `choice` to the new ops.
void PieceAttention(Graph* graph, int pieces, SbpChoice* choice);

}  // namespace oneflow
