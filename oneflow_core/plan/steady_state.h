// Steady state: a step of many micro-batches repeats itself, and a proof need not play every
// repeat.
//
// If a legal game leads from one marking to another that differs only by whole fills, the same
// firings are legal again from there: whether an actor may fire depends on differences of counts,
// not on the counts. So the game may go on by many cycles at once, as long as every stream stays in
// its run and no counter that a cycle moves by less than a fill crosses one. The cost of a proof
// then depends on the warm-up, not on the number of micro-batches (law 7).
//
//   SteadyState steady(net);
//   ... after every firing of stream s:
//   if (steady.AtRepeat(s, marking)) {
//     const Cycle cycle = steady.Find(marking);
//     if (cycle.times > 0) Skip(cycle, cycle.times, &marking);
//   }
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "oneflow_core/plan/marking.h"

namespace oneflow {

struct Cycle {
  int64_t times = 0;             // how often it may be taken again from its end; 0: it is none
  std::vector<int64_t> repeats;  // by stream: repeats of its present run in one cycle
};

// The cycle that the game from `from` to `to` was.
Cycle CycleBetween(const PlanNet& net, const Marking& from, const Marking& to);

// Takes a cycle `times` times at once. Requires times <= cycle.times.
void Skip(const Cycle& cycle, int64_t times, Marking* marking);

// Looks for cycles at the repeats of one stream, the pilot: the one with the longest run.
class SteadyState {
 public:
  explicit SteadyState(const PlanNet& net);
  // Whether `stream` is the pilot and has just begun another repeat of a run: time to look.
  bool AtRepeat(int stream, const Marking& marking);
  // The cycle that ends in `marking`, if one began at one of the last repeats. Remembers `marking`.
  Cycle Find(const Marking& marking);
  void Forget() { seen_.clear(); }

 private:
  static constexpr size_t kRemembered = 3;  // repeats of the pilot that one cycle may take
  const PlanNet& net_;
  int pilot_ = -1;
  StreamPlace last_;
  std::deque<Marking> seen_;
};

}  // namespace oneflow
