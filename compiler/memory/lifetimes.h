// When a register holds something that may still be touched, told on the clock of its stage's
// compute stream.
//
// Sharing bytes needs happens-before, not time: what counts is from when on the compute stream
// knows that all accesses are over, and what it has completed, for certain, when the first write
// comes. Both are found by playing the game of the memory proof (oneflow_core/net/stream_clocks.h)
// on slots alone, before anything has a place.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "compiler/memory/pairs.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Moments [first, last] of one step, both included; sorted and disjoint. A firing of the compute
// stream has three: at 3i it knows what its inputs tell, at 3i + 1 it reads and writes, at 3i + 2
// it is complete.
using Spans = std::vector<std::pair<int64_t, int64_t>>;

struct Lifetime {
  int reg = 0;  // id
  int64_t slots = 1;
  int64_t slot_bytes = 0;
  bool workspace = false;  // scratch of its writer's firings
  Spans spans;             // bytes may be another register's outside these
  // Of each fill of two steps, on a clock that runs on over both; empty where it is not known.
  Spans fills;
  // Where another stream than compute writes it: how many fills of a register that others read are
  // over, for certain, when each of its fills begins. What came back tells of what was sent, and an
  // exchange of those before it on its stream, before the compute stream has heard of either.
  std::map<int, std::vector<int64_t>> over;  // by that register's id

  int64_t bytes() const { return slots * slot_bytes; }
  int64_t fills_a_step() const;  // 0: they are not known
  // `over` of that register; null: nothing is known.
  const std::vector<int64_t>* OverOf(const Lifetime& other) const;
};

struct StageLifetimes {
  int64_t length = 3;               // moments of a step; at least 3
  std::vector<Lifetime> registers;  // those of a program's arena that have bytes, by id
};

// By arena (oneflow_core/plan/arenas.h). A register whose accesses are not known to be over before
// its next fill lives for the whole step; so does one that holds fills when a step begins. A
// program whose order sticks has no lifetimes: everything lives for the whole step, and the proof
// says why it sticks.
std::vector<StageLifetimes> LifetimesOf(const PlanNet& net, int stages);

// Which of several have a moment in common.
Pairs Meetings(const std::vector<Spans>& all);
// Moments of all spans, counted for each.
int64_t LengthOf(const Spans& spans);
// Moments of either.
Spans Union(const Spans& a, const Spans& b);

// Moments of a step of `length` in which one of a step's fills, the first two steps' alike, holds
// something. Requires that the fills are known.
Spans SpansOfFill(const Lifetime& life, int64_t fill, int64_t length);

// Whether two registers ever hold something at once in the same of `places` places that their fills
// take in turn, the first of b `further` places further than that of a, 0 <= further < places.
// Requires the fills of both, as many of one as of the other, and no more slots than places.
bool MeetInPlace(const Lifetime& a, const Lifetime& b, int64_t places, int64_t further = 0);

}  // namespace oneflow
