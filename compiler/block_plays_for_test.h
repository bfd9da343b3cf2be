// Plays the pipes of block_pipe_for_test.h: finds how long a step takes, and how much a stage holds
// at once.
//
//   CHECK(PlayBlocks(built).most_gathered == 2);
#pragma once

#include <random>

#include "compiler/block_pipe_for_test.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

struct PlayedBlocks {
  double seconds = 0;
  // The most that any stage holds at once. A gather or a gradient counts from its first write to
  // its return.
  int most_gathered = 0, most_gradients = 0;
};

// Plays one step by the clock.
PlayedBlocks PlayBlocks(const BuiltBlocks& built);

// The most gathers, and the most full gradients, that may be held under any timing. In one play
// gathers take no time, in the other reductions take nearly all of it.
int MostGathered(const BuiltBlocks& built);
int MostGradients(const BuiltBlocks& built);

// Bytes, in blocks, of the registers of the stage that needs most, without its parts of weights and
// of sums.
double ArenaBlocks(const BuiltBlocks& built);

// Returns the same plan with the gathered registers in d + 1 buffers behind all others, whatever
// addresses the planner chose. Requires kAligned.
BuiltBlocks MoveIntoTurns(BuiltBlocks built, int ahead);

// Draws live orders: plays a game of all stages, in which any task that may come next does.
Schedule DrawSchedule(std::mt19937* random, int stages, int chunks, int micro_batches,
                      bool splits_backward);

}  // namespace oneflow
