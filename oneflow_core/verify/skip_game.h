// Checks HappensBefore::SkipCycles: plays the cycles that it skips, and compares.
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

// Plays the game of two steps and tries to skip after each round, not only when a skip is likely to
// succeed. A copy of the game plays the skipped cycles. Returns a description of the first skip
// that accepts more than the played game does; empty if there is none. Requires a net that
// satisfies the requirements of VerifyMemory.
std::string FirstBadSkip(const PlanNet& net, SkipCounts* counts);

}  // namespace oneflow
