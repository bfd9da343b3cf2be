// Draws small programs, and moves of their registers: inputs of a fuzz of the memory proof.
//
//   proto::Plan plan = RandomProgram(7);
//   std::mt19937 random(7);
//   MoveRegister(random, plan.mutable_program(0));
//
// They are no models: they may have anything that the plan format can say of tokens and bytes, but
// no kernels.
#pragma once

#include <cstdint>
#include <random>

#include "proto/plan.pb.h"

namespace oneflow {

// Draws a plan of one program "train": one or two stages, with or without an axis "data" of two. It
// has 3 to 52 actors in the phases P, F, B, U on streams "compute", "copy", "send", "receive",
// "host". Registers have several slots, sizes and rates; some are control, some of these read
// before their first fill. There are sends and receives between stages, sums over the axis, and
// workspaces. Registers are consecutive. The same seed gives the same plan. Not every one is live
// or has legal types: ask the proofs.
proto::Plan RandomProgram(uint32_t seed);

// The same, but half of the registers that may do so rest in the host's memory between the writer
// and some of the readers. Copies on streams "offload.out" and "offload.in", of kind COPY, move
// them.
proto::Plan RandomProgramWithCopies(uint32_t seed);

// Swaps two runs, or two actors of a run, in the order of issue of a stage, if one has two.
void MoveExchange(std::mt19937& random, proto::Program* program);

// Assigns one register another address, often one that overlaps another register, or other buffers,
// or puts two into the same frames. Most results are wrong.
void MoveRegister(std::mt19937& random, proto::Program* program);

}  // namespace oneflow
