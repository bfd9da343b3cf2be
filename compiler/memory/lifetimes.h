// When a register holds something that may still be touched, in positions of its stage's compute
// stream.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "oneflow_core/plan/plan_net.h"

namespace oneflow {

// Positions [first, last], both included, of the firings of one step; sorted and disjoint.
using Spans = std::vector<std::pair<int, int>>;

struct Lifetime {
  int reg = 0;        // id
  int64_t bytes = 0;  // of all slots
  Spans spans;        // bytes may be another register's outside these
  // Each fill by itself, from its first write to its last return; for the lower bound.
  Spans fills;
  int64_t slot_bytes = 0;
};

struct StageLifetimes {
  int length = 1;                   // positions of the compute stream; at least 1
  std::vector<Lifetime> registers;  // those of a program's stage that have bytes, by id
};

// A register that only the compute stream touches lives from its first write to its last read. One
// that peers read, too, lives until our stream has heard from all of them: until the first later
// actor that reads, along the same axes, something they wrote after their read. One that other
// streams or stages touch lives for the whole step.
StageLifetimes LifetimesOf(const PlanNet& net, int stage);

bool Meet(const Spans& a, const Spans& b);

}  // namespace oneflow
