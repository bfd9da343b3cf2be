// Frames: groups of registers of a stage whose buffers are interleaved (plan/buffers.h). The
// members have equally many buffers, the same stride, and equally many fills a step. Buffer i of
// every member is in frame i. If each micro-batch fills each member once, every micro-batch in
// flight has its own frame, and in it registers share bytes as in an arena of one micro-batch.
//
//   ln     fill 0 . . . | fill 1 . . . | fill 2 . . .       buffer 0, 1, 2, then 0 again
//   dgelu  . . . fill 0 | . . . fill 1 | . . . fill 2       in bytes whose contents are over
//
// For the memory proof: the frame that a step begins with may drift. But all members drift equally,
// so their overlap inside a frame does not change from step to step. A register with as many
// buffers as fills a step does not drift. The proof treats each of its buffers as a separate
// register, which any other register may overlap; such a register is not a member here.
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

struct Frames {
  int stage = 0;
  proto::MemoryKind memory_kind = proto::DEVICE;
  int64_t begin = 0, stride = 0;  // in the arena: frame i is begin + i * stride and on
  int64_t buffers = 1;
  std::vector<int> members;      // registers; each has one buffer in every frame
  std::vector<int> conflicting;  // other registers of the program with bytes in [begin, end())

  int64_t end() const { return begin + buffers * stride; }
};

// True if the register has interleaved buffers and a step fills each of them once: a buffer then
// belongs to the same micro-batch in every step.
bool FillsBuffersOnce(const PlanNet& net, const NetRegister& r);

// Finds the frames of a program. Every written register with interleaved buffers is a member of
// exactly one, unless FillsBuffersOnce.
std::vector<Frames> FindFrames(const PlanNet& net);

}  // namespace oneflow
