// Lays out frames (oneflow_core/verify/frames.h) for registers that fill once a micro-batch.
//
// A saved-activation register has a slot for every micro-batch in flight. Each slot is idle between
// its backward and its next forward, but which slot is idle changes every micro-batch, so a tensor
// at a fixed address cannot use it. Frames make use of it: the buffers of one micro-batch are side
// by side. A tensor that the same micro-batch needs for a while, in its forward or backward, takes
// bytes of the frame that are idle then.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/memory/buffer_rings.h"
#include "compiler/memory/lifetimes.h"

namespace oneflow {

struct FrameLayout {
  struct Member {
    int life = 0;        // index in the lifetimes given
    int64_t offset = 0;  // in the frame
    int64_t first_buffer = 0;
    bool operator==(const Member&) const = default;
  };
  int64_t buffers = 1;
  int64_t bytes = 0;  // of one frame
  bool once = false;  // a step fills each buffer once: buffer i belongs to micro-batch i
  std::vector<Member> members;
  Spans spans;  // moments in which any of the frames holds something

  bool operator==(const FrameLayout&) const = default;
};

// A join: registers of `slots` slots become members of the frames of registers of `buffers` slots.
// They get more buffers than they need, so that other tensors fit in before and after them. Under
// zero bubble, for example, gradients that B hands to W outlive the activations that only B needed,
// and have fewer slots. In the frames of tensors that wait for W, they reuse the memory of those
// activations.
struct FrameJoin {
  int64_t buffers = 0, slots = 0;
};

// Returns the joins that may save bytes.
std::vector<FrameJoin> FrameJoins(const StageLifetimes& stage);

// Returns layouts with disjoint members, the one of most buffers first. There is one for the
// registers of each of `rings`, and one for the others of each number of slots, with those that
// `join` adds. A layout first takes its registers in the order in which a micro-batch writes them.
//
// Then it takes registers of fewer slots that fit into the free bytes, the largest and longest
// first, in the frame of their micro-batch or of a neighbouring one. Unless `longer`, it takes only
// those that do not extend the frames' lifetime. If buffers take turns, a layout of one member is
// left out: it saves nothing.
std::vector<FrameLayout> MakeFrameLayouts(const StageLifetimes& stage, bool longer,
                                          const std::vector<BufferRing>& rings,
                                          FrameJoin join = {});

}  // namespace oneflow
