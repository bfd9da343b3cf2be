// Plays of the pipes of block_pipe_for_test.h: how long a step takes, and what a stage holds at
// once.
//
//   CHECK(PlayBlocks(built).most_gathered == 2);
#pragma once

#include <random>

#include "compiler/block_pipe_for_test.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

struct PlayedBlocks {
  double seconds = 0;
  // The most on any stage at once: a gather or a gradient counts from its first write to its
  // return.
  int most_gathered = 0, most_gradients = 0;
};

// One step by the clock.
PlayedBlocks PlayBlocks(const BuiltBlocks& built);

// The most gathers, and full gradients, that may be held, whatever the timing: gathers take no time
// in one play, reductions nearly all of it in the other.
int MostGathered(const BuiltBlocks& built);
int MostGradients(const BuiltBlocks& built);

// Bytes of the registers of the stage that needs most, its parts of weights and of sums aside, in
// blocks.
double ArenaBlocks(const BuiltBlocks& built);

// The same plan with the gathered registers in d + 1 buffers behind all others, whatever addresses
// the planner chose. Requires kAligned.
BuiltBlocks MoveIntoTurns(BuiltBlocks built, int ahead);

// Orders that are live: a game of all stages in which any task that may come next does.
Schedule DrawSchedule(std::mt19937* random, int stages, int chunks, int micro_batches,
                      bool splits_backward);

}  // namespace oneflow
