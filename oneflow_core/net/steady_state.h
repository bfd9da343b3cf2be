// Steady state: a step of many micro-batches repeats itself, and a proof need not play every
// repeat.
//
// If a legal game leads from one marking to another that differs by a multiple of fills, the same
// firings are legal again from there. An actor's right to fire depends on differences of counts,
// not on the counts. So the game may go on by many cycles at once. There are two limits: every
// stream stays in its run, and no counter that a cycle moves by less than a fill crosses one. The
// cost of a proof then depends on the warm-up, not on the number of micro-batches (law 7).
//
// Games that look for it are played in rounds. In each round, every stream advances by at most as
// many repeats as make one micro-batch (or the few that one repeat of some stream takes). While all
// streams are in runs that repeat, the net is a live marked graph. From any marking of such a net
// every transition can fire once more (Commoner, Holt, Even, Pnueli 1971), so the first round that
// begins there is a cycle.
//
//   for (Round round(net, marking); ...; round = Round(net, marking)) {
//     ... fire streams while !round.Over(s, marking) and nothing blocks them;
//     const Cycle cycle = CycleBetween(net, round.begin(), marking);
//     if (cycle.times > 0) Skip(cycle, cycle.times, &marking);
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/net/marking.h"

namespace oneflow {

// The way a proof plays: it skips cycles, or, to check the skipping, plays every firing.
enum class Play : uint8_t { kSkipCycles, kEveryFiring };

struct Cycle {
  int64_t times = 0;             // how often it may be taken again from its end; 0: it is none
  std::vector<int64_t> repeats;  // by stream, then by order of issue: of its present run
};

// Returns the cycle that the game from `from` to `to` was.
Cycle CycleBetween(const PlanNet& net, const Marking& from, const Marking& to);

// Takes a cycle `times` times at once. Requires times <= cycle.times.
void Skip(const Cycle& cycle, int64_t times, Marking* marking);

class Round {
 public:
  Round(const PlanNet& net, const Marking& begin);
  const Marking& begin() const { return begin_; }
  // True if the stream has gone as far as it may in this round.
  bool Over(int stream, const Marking& marking) const {
    return marking.position(stream) == end_[stream];
  }

 private:
  Marking begin_;
  std::vector<StreamPosition> end_;  // by stream
};

// Plays one round: fire(s) takes the next firing of stream s and says whether to go on. Returns
// true if anything fired.
template <typename Fire>
bool PlayRound(const PlanNet& net, const Round& round, const Marking& marking, Fire fire) {
  bool any = false;
  const auto may_fire = [&](int s) {
    if (marking.done(s) || round.Over(s, marking)) return false;
    const int partner = marking.Partner(marking.next(s));
    if (partner >= 0 && round.Over(net.actors[partner].stream, marking)) return false;
    return !marking.FindBlocker(marking.next(s));
  };
  for (ReadyStreams ready(net); !ready.empty();) {
    const int s = ready.Pop();
    bool fired = false;
    while (may_fire(s)) {
      if (!fire(s)) return false;
      fired = true;
    }
    if (fired) ready.Wake(s), any = true;
  }
  return any;
}

}  // namespace oneflow
