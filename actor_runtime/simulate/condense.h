// Condense: fewer blocks for a picture of a long run. Neighbours of one stream and one step that
// together last no longer than a pixel or so become one block.
//
//   Condensation condensed = Condense(&summary, /*most=*/30000);
//   // condensed.seconds: blocks that are shorter stand together with their neighbours
//
// Times, sums and peaks stay as they are; only the blocks of streams and the pieces of the critical
// path become fewer. A pure function of the summary: equal summaries condense equally.
#pragma once

#include <cstddef>

#include "actor_runtime/simulate/summary.h"

namespace oneflow {

struct Condensation {
  double seconds = 0;  // a condensed block lasts at most so long; 0: nothing was condensed
  size_t blocks = 0;   // there were, on streams of devices
  size_t pieces = 0;   // of the critical path there were in the last step
};

// To at most `most` blocks on streams of devices, or one of each stream and step if these are
// more. Does nothing where they are few enough. Else blocks of host streams go, and of more than
// kMostStages stages those of all streams but "compute"; of the critical path the first kPiecesKept
// pieces of the last step stay, and each block says by `critical` whether the path leads through
// it.
inline constexpr size_t kPiecesKept = 60, kMostStages = 12;
Condensation Condense(SimulationSummary* summary, size_t most);

}  // namespace oneflow
