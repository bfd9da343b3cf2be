// Lifetimes: when a register holds something that may still be accessed, on the clock of its
// stage's compute stream.
//
// Registers may share bytes if happens-before orders their accesses; elapsed time proves nothing.
// Two facts count: the moment from which the compute stream knows that all accesses are complete,
// and the firings that it has certainly completed when the first write comes. Both are found by
// playing the game of the memory proof (oneflow_core/net/stream_clocks.h) on slots alone, before
// anything has an address.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/memory/pairs.h"
#include "oneflow_core/net/plan_net.h"

namespace oneflow {

// Moments [first, last] of one step, both included; sorted and disjoint. Firing i of the compute
// stream has three moments. At 3i its clock includes those of its inputs, at 3i + 1 it reads and
// writes, at 3i + 2 it is complete.
using Spans = std::vector<std::pair<int64_t, int64_t>>;

struct Lifetime {
  int reg = 0;  // id
  int64_t slots = 1;
  int64_t slot_bytes = 0;
  bool workspace = false;  // scratch of its writer's firings
  Spans spans;             // outside these moments another register may have the bytes
  // The span of each fill of two steps, on a clock that runs on over both; empty if not known.
  Spans fills;
  // For a register that a stream other than compute reads: its number among those of the stage, its
  // host arena included. -1: no such stream reads it.
  int sent = -1;
  // Only for a register that a stream other than compute writes. By numbered register and by
  // observed fill of this one: the fills of the numbered register that are certainly complete when
  // the fill begins. It holds before the compute stream knows: a received tensor implies that the
  // send that caused it is complete. An exchange implies those before it on its stream.
  std::vector<int32_t> over;

  int64_t bytes() const { return slots * slot_bytes; }
  int64_t fills_a_step() const;  // 0: they are not known
  // The entries of `over` for `other`, by fill; null if nothing is known. Requires that the fills
  // are known.
  const int32_t* CompletedFills(const Lifetime& other) const {
    return over.empty() || other.sent < 0 ? nullptr : &over[other.sent * fills.size()];
  }
};

struct StageLifetimes {
  int64_t length = 3;               // moments of a step; at least 3
  std::vector<Lifetime> registers;  // those of a program's arena that have bytes, by id
};

// Returns lifetimes by arena (oneflow_core/plan/arenas.h). A register lives for the whole step if
// its accesses are not known to be complete before its next fill, or if it holds fills when a step
// begins. In a program whose order deadlocks every register lives for the whole step; the proof
// then reports the deadlock.
std::vector<StageLifetimes> FindLifetimes(const PlanNet& net, int stages);

// Finds the pairs that have a moment in common.
Pairs FindOverlaps(const std::vector<Spans>& all);
// The number of moments, summed over the spans.
int64_t TotalLength(const Spans& spans);
// The moments of either.
Spans UniteSpans(const Spans& a, const Spans& b);

// The moments of a step of `length` moments in which fill number `fill` of a step holds something,
// in the first or the second step. Requires that the fills are known.
Spans FillSpans(const Lifetime& life, int64_t fill, int64_t length);

// True if two registers ever hold something at the same moment in the same one of `buffers`
// buffers, which their fills take in turn. The first buffer of b is `further` after that of a,
// cyclically, 0 <= further < buffers. Requires that the fills of both are known, equally many, and
// that neither has more slots than there are buffers.
bool MeetInBuffer(const Lifetime& a, const Lifetime& b, int64_t buffers, int64_t further = 0);

}  // namespace oneflow
