// The policy of each block of a plan group, so that a step takes least where it must fit a
// memory.
//
// The blocks of a stage are alike, so only the number of each policy counts, and stages are
// independent: a step gets no longer if one of its stages takes less. So each stage takes, of all
// numbers of its policies that fit, those that take least.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/search/candidate.h"
#include "planning/search/stage_costs.h"

namespace oneflow {

// The counts of a stage with `blocks` blocks that take least and need at most `capacity` bytes (0:
// no limit) by the lower bound; of these the first that need least. None where nothing fits.
std::optional<PolicyCounts> ChooseCounts(const GroupCosts& costs, int stage, int blocks,
                                         double capacity);

struct BlockMix {
  std::vector<PolicyCounts> counts;  // by stage
  double step_seconds = 0;
  double bytes = 0;  // of the stage that needs most: the lower bound
};

// With these numbers of blocks on the stages. None where a stage does not fit.
absl::StatusOr<std::optional<BlockMix>> ChooseMix(const GroupCosts& costs,
                                                  const std::vector<int>& blocks, double capacity);

// The numbers of blocks for which the longest stage takes least, each with its best counts: blocks
// go one after the other to the stage that is shortest with it, which is optimal because a stage
// with more blocks takes longer. None where they do not fit.
std::optional<std::vector<int>> BalanceBlocks(const GroupCosts& costs, int blocks, double capacity);

// The choice that says these counts. `slices`: blocks of each slice along the pipe, stages times
// chunks; the chunks of a stage get equal parts of its counts, as nearly as can be. `gathers`: what
// the forward gathers of activations, the backward gathers again.
proto::Recompute MakeRecompute(const std::vector<PolicyCounts>& counts,
                               const std::vector<int>& slices, bool gathers = false);

}  // namespace oneflow
