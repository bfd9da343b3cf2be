// Condense: reduces a run to what a picture of one step shows: the blocks of the last step on the
// streams of devices. If these are too many, neighbours of one stream that together last no longer
// than about a pixel become one block.
//
//   Condensation condensed = Condense(&summary, /*most=*/30000);
//   // condensed.seconds: shorter blocks are merged with their neighbours
//
// Sums and peaks stay as they are; only blocks, the pieces of the critical path and the points of
// memory become fewer. It is a pure function of the summary: equal summaries condense equally.
#pragma once

#include <cstddef>

#include "planning/simulate/summary.h"

namespace oneflow {

struct Condensation {
  double seconds = 0;  // a condensed block lasts at most so long; 0: nothing was condensed
  size_t blocks = 0;   // there were, of those that a picture shows
};

// Drops the blocks of other steps, of host streams, and of "copy.in" and "copy.out", the copies of
// what the host reads and reports: a segment of these copies values of the first micro-batch and of
// the update, so its block would be as long as the step. If more than `most` blocks are left, it
// drops those of all streams but "compute" if these alone are too many, too, and merges, so that at
// least one of each stream stays. The first of equal periods stays in full, unless it has more than
// three quarters of `most`. `critical` of each block says if the critical path leads through it;
// its pieces go.
Condensation Condense(SimulationSummary* summary, size_t most);

}  // namespace oneflow
