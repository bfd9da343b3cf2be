// Periods: the steady state of a pipeline repeats itself exactly, and a simulation can skip the
// repeats.
//
// Times of a simulated run are multiples of a quantum so small that all sums of them are exact
// (simulate.h). So two states are compared for equality, without a tolerance:
//
//  1. Every stream is at the same index of the same run of its order, some repeats further.
//  2. Tokens, members that have not entered, workers and pending events are equal, with times
//     counted from now.
//  3. A counter of firings went on by complete fills, or stays inside the fill that it was in.
//
// The same events follow from such a state as from the earlier one, for as many periods as the runs
// of the orders and the fills of (3) allow.
//
//   PeriodFinder finder(run.net);
//   if (finder.Due(state, firings)) {
//     if (std::optional<Period> period = finder.Look(state, firings)) Skip(net, *period, &state);
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

#include "actor_runtime/exec/net.h"
#include "planning/simulate/clock_state.h"

namespace oneflow {

// The state now equals the state `seconds` ago, and the same can follow `times` times.
struct Period {
  int64_t times = 0;
  double seconds = 0;
  int64_t firings_before = 0;      // that had begun when the period began
  std::vector<int64_t> issued;     // by concrete actor: in the period
  std::vector<int64_t> completed;  // the same
  std::vector<int64_t> recorded;   // the same: begun
  std::vector<int64_t> repeats;    // by stream
  std::vector<int64_t> sequences;  // of messages; by pending event, earliest first
};

class PeriodFinder {
 public:
  // `net` must outlive it.
  // `most_ahead`: seconds by which a host is ahead of its device at most.
  PeriodFinder(const ActorNet& net, double most_ahead);

  // True if it is time to look: one fixed stream is between two repeats of a run, and enough has
  // been fired since the last look to be worth its cost. `begun`: firings so far.
  bool Due(const ClockState& state, int64_t begun) const;

  // Requires that no more events happen at state.now.
  std::optional<Period> Look(const ClockState& state, int64_t begun);

  // Called after a Skip: the counts of all earlier states are out of date.
  void Forget();

 private:
  struct Moment {
    uint64_t hash = 0;
    double now = 0;
    int64_t begun = 0;
    std::vector<int64_t> state;  // the part that must be equal
    std::vector<FiringOrder::Cursor> cursors;
    std::vector<int64_t> issued, completed, recorded, sequences;
  };

  Moment MakeMoment(const ClockState& state, int64_t begun) const;
  std::optional<Period> Between(const Moment& from, const Moment& to) const;

  const ActorNet& net_;
  const double most_ahead_;
  int32_t watched_ = -1;  // stream
  int64_t looked_at_ = 0;
  Moment previous_, saved_;
  std::unordered_set<uint64_t> seen_;
};

// Skips period.times repeats of a period at once.
void Skip(const ActorNet& net, const Period& period, ClockState* state);

}  // namespace oneflow
