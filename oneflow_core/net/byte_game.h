// The byte game: a brute-force check of the proofs of memory and liveness. It plays a legal game of
// tokens on every device of the mesh, in which each live fill takes its bytes and no two may have
// the same. A fill is live from the beginning of the first firing of its writer until all its
// readers have ended the last firing of their read. A workspace is live while its actor fires. A
// firing begins and ends at separate moments, so that others come between.
//
// No token leaves a device. The members of a group meet in exchanges: each begins its own when it
// has its tokens, and holds the bytes that the exchange reads and writes. It ends, on each at its
// own time, when all have begun. A send and its receive are one exchange of two devices. In every
// second game devices issue exchanges in the order of issue of their stage, one after another; in
// the others whenever streams reach them.
//
// The game knows no clocks, no lifetimes and no cycles, only tokens, and shares no code with the
// proof. Orders are drawn at random, among them orders in which some streams are far ahead of
// others. So one overlap shows that a plan is wrong. The absence of overlaps proves nothing, but
// over many games of a small program it is strong evidence. Deadlock does not depend on what is
// drawn.
//
//   CHECK(FirstOverlap(net, {.games = 20, .seed = 7}) == "");
#pragma once

#include <cstdint>
#include <string>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

struct ByteGames {
  int games = 2;      // every second with orders of issue, the first among them
  int64_t steps = 4;  // so that buffers drift from step to step
  uint32_t seed = 0;  // of the first; each further one adds 1
};

// Returns the first fill that takes bytes of another, as "x (fill 3) takes bytes of y on rank 1".
// If a game deadlocks, returns the actor that waits for ever; empty: neither. Requires that the
// types of plan and program are verified: offsets are aligned and inside the arenas.
std::string FirstOverlap(const PlanNet& net, const ByteGames& games);

}  // namespace oneflow
