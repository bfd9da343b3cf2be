// The least seconds of a mix of policies, where blocks may be divided: a lower bound of ChooseMix
// and BalanceBlocks (block_mix.h) that takes microseconds.
#pragma once

#include <optional>
#include <vector>

#include "planning/search/stage_costs.h"

namespace oneflow {

// The seconds of the longest stage, for a micro-batch, with these numbers of blocks; none where a
// stage does not fit `capacity` bytes (0: no limit) with any mix.
std::optional<double> RelaxedSeconds(const GroupCosts& costs, const std::vector<int>& blocks,
                                     double capacity);

// The same with any numbers of blocks, whole or not, that add up to `blocks`.
std::optional<double> RelaxedBalance(const GroupCosts& costs, int blocks, double capacity);

}  // namespace oneflow
