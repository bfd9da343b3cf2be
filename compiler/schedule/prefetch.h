// Keeps gathers of weights, which run ahead of compute on a stream of their own, from running too
// far ahead.
//
// The uses of a task, such as the blocks of a forward, share a ring of d + 1 places. The gather of
// a use waits until compute has left the use d + 1 before it in the same task. The first ones of a
// micro-batch wait for the last ones of the micro-batch before. If parts are cast for the gathers
// of a use, the first cast waits, and the others follow it on their stream.
//
//   gathers   g0  g1  g2  g3 ...          with d = 1: g2 waits for a control register that the
//   compute           b0  b1  b2  b3      last reader of g0's weights fills
//
// Forward and backward have a ring each, so a stage holds at most 2 (d + 1) uses. One stream of
// gathers runs the tasks in compute's order, so it is never ahead by more than the first gathers of
// the next task. With chunks this holds if a chunk has more uses than its ring has places. So a
// ring has fewer than d + 1 if a chunk has 3 uses or more. Chunks of one or two hold up to four
// tasks where a stage turns to other chunks.
//
// A use that is read until after the use that would wait for it has no place in the ring: it stays
// for its micro-batch. So does one with readers outside of its task.
#pragma once

#include "compiler/lower/lowered.h"

namespace oneflow {

// Adds the control registers of lowered->gather_uses, and brings gathers into the order in which
// compute needs them. `ahead`: d, at least 1.
void AddPrefetch(int ahead, Lowered* lowered);

}  // namespace oneflow
