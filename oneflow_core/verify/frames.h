// Frames: registers of a stage that lie apart (places.h), in equally many places equally far from
// each other, and fill equally often a step: place i of each lies in frame i. Where each
// micro-batch fills each of them once, a micro-batch in flight has a frame of its own, and in it
// registers share bytes as in an arena of one micro-batch.
//
//   ln     fill 0 . . . | fill 1 . . . | fill 2 . . .       place 0, 1, 2, then 0 again
//   dgelu  . . . fill 0 | . . . fill 1 | . . . fill 2       in what is over when it comes
//
// For the memory proof: which frame a step begins with may drift, but all members drift alike, so
// how they meet in a frame does not change from step to step. A register with as many places as
// fills a step does not drift, so the proof takes each of its places as a register of its own,
// which any other may meet, and it is no member here.
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

struct Frames {
  int stage = 0;
  proto::MemoryKind memory_kind = proto::DEVICE;
  int64_t begin = 0, stride = 0;  // in the arena: frame i is begin + i * stride and on
  int64_t places = 1;
  std::vector<int> members;    // registers; their slots lie inside one frame
  std::vector<int> intruders;  // other registers of the program with bytes in [begin, end())

  int64_t end() const { return begin + places * stride; }
};

// Whether the register lies apart and fills each of its places once a step, so that a place is the
// same micro-batch's in every step.
bool FillsPlacesOnce(const PlanNet& net, const NetRegister& r);

// Every written register of the program that lies apart is a member of exactly one, unless it fills
// its places once.
std::vector<Frames> FramesOf(const PlanNet& net);

}  // namespace oneflow
