// The rules of training whose steps overlap without waiting for one another: the version of the
// weights that forward and backward read, and the time at which weights change. Each rule is slots
// and initial fills of the weights' registers, and a position of U in the order:
//
//                        lag of stage s   versions    an update takes
//   synchronous          0                1           the M micro-batches of a step
//   2bw                  1                2           the same
//   staleness = S        S                S + 1       the same
//   pipedream            P − 1 − s        >= lag + 1  one step; meant for M = 1
//
// The weights of step t are those after update t − 1 − lag. So the gradient of step t is of weights
// that lag `lag` updates behind those it changes. Forward and backward of a micro-batch read the
// same version. "The latest there is" is not offered: it would depend on timing (law 6).
//
// Such steps come in rounds of `steps_a_round`: the pipe is filled once a round and drained once,
// so that programs may change and checkpoints be written between rounds.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "compiler/lower/order.h"

namespace oneflow {

struct UpdateRule {
  int64_t staleness = 0;      // the lag of every stage
  bool stashing = false;      // the lag of stage s is P − 1 − s
  int64_t steps_a_round = 1;  // a multiple of every stage's versions: a round ends where it began

  bool synchronous() const { return staleness == 0 && !stashing; }
  int64_t Lag(int stages, int stage) const { return stashing ? stages - 1 - stage : staleness; }
  // Slots of the weights: stages of different lags take powers of two, which all divide a round.
  int64_t Versions(int stages, int stage) const;
};

// Gives `rule` a `steps_a_round` if it has none: at least 8. An input error unless it is a multiple
// of the versions of every stage.
absl::Status SetRound(int stages, UpdateRule* rule);

// Returns one round of a stage: 1F1B over the micro-batches of all its steps, P before the first
// forward of a step and U after its last backward: F×3 ((F B)×8 U)×7 (F B)×5 B×3 U.
StageOrder RoundOrder(const UpdateRule& rule, int stages, int stage, int64_t micro_batches);

}  // namespace oneflow
