// Whether the memory proof may skip what it skips, by playing it: the check of
// HappensBefore::SkipCycles.
//
//   CHECK(FirstBadSkip(net, &counts) == "");
#pragma once

#include <string>

#include "oneflow_core/net/plan_net.h"

namespace oneflow {

struct SkipCounts {
  int rounds = 0;                    // played
  int skips = 0, frames_turned = 0;  // in how many of them frames did
  int looser = 0;  // from where less is known, or more is held, than had all been played
};

// Plays the game of two steps, and tries to skip after each round, not only when a skip is likely
// to succeed. What is skipped is played beside it. What is wrong with the first skip that lets more
// pass than what was played, if there is one. Requires that the proof may be asked about the net.
std::string FirstBadSkip(const PlanNet& net, SkipCounts* counts);

}  // namespace oneflow
