// Frames (oneflow_core/verify/frames.h) for registers that fill once a micro-batch.
//
// What is saved for the backward has a slot for every micro-batch in flight, and each slot is empty
// for part of the time: from when the backward has returned it until its turn comes again. No
// register with one place fits in there, for the time is another one in each slot. Frames make use
// of it: the slots that belong to one micro-batch lie side by side, and what is needed for a while
// in the forward or backward of that micro-batch lies where they are empty.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/memory/lifetimes.h"
#include "compiler/memory/place_rings.h"

namespace oneflow {

struct FrameLayout {
  struct Member {
    int life = 0;        // index in the lifetimes given
    int64_t offset = 0;  // in the frame
    int64_t first_place = 0;
  };
  int64_t places = 1;
  int64_t bytes = 0;  // of one frame
  bool once = false;  // a step fills each place once: place i is its i-th micro-batch's
  std::vector<Member> members;
  Spans spans;  // when any of the frames holds something
};

// Registers of `slots` slots have places in the frames of those of `places` slots, more than they
// need, so that others fit in before and after them. Where a backward leaves its gradients of
// activations to a later one of weights, for instance: they outlive what the forward saved for the
// backward alone, and have fewer slots; in the frames of what waits with them they lie where some
// of that was.
struct FrameJoin {
  int64_t places = 0, slots = 0;
};

// The joins that may save bytes.
std::vector<FrameJoin> FrameJoins(const StageLifetimes& stage);

// Layouts with disjoint members, the one of most places first: for each of `rings` the registers on
// it, for each number of slots the others that have as many, and those that `join` says, in the
// order in which a micro-batch writes them; and those of fewer slots that fit into what these leave
// free, the largest and longest first, in the frame of their micro-batch or of one next to it;
// unless `longer`, only those that need the frames at no other time. A layout of one member is not
// made where places take turns: nothing is won.
std::vector<FrameLayout> LayFrames(const StageLifetimes& stage, bool longer,
                                   const std::vector<PlaceRing>& rings, FrameJoin join = {});

}  // namespace oneflow
