// Condense: reduces the blocks for a picture of a long run. Neighbours of one stream and one step
// that together last no longer than about a pixel become one block.
//
//   Condensation condensed = Condense(&summary, /*most=*/30000);
//   // condensed.seconds: shorter blocks are merged with their neighbours
//
// Times, sums and peaks stay as they are; only the blocks of streams and the pieces of the critical
// path become fewer. It is a pure function of the summary: equal summaries condense equally.
#pragma once

#include <cstddef>

#include "planning/simulate/summary.h"

namespace oneflow {

struct Condensation {
  double seconds = 0;  // a condensed block lasts at most so long; 0: nothing was condensed
  size_t blocks = 0;   // there were, on streams of devices
  size_t pieces = 0;   // of the critical path in the last step, before
};

// Leaves at most `most` blocks on streams of devices, or one of each stream and step if these are
// more. It has no effect if the blocks are few enough. Else it drops blocks of host streams, and,
// beyond kMostStages stages, blocks of all streams but "compute". The first kPiecesKept pieces of
// the last step's critical path stay, and `critical` of each block says if the path leads through
// it.
inline constexpr size_t kPiecesKept = 60, kMostStages = 12;
Condensation Condense(SimulationSummary* summary, size_t most);

}  // namespace oneflow
