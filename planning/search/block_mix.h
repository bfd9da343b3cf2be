// The policy of each block of a plan group, so that a step takes least where it must fit a
// memory.
//
// The blocks of a class are alike, so only the number of each policy among them counts, and stages
// are independent: a step gets no longer if one of its stages takes less. So each stage takes, of
// all numbers of its policies that fit, those that take least.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/search/candidate.h"
#include "planning/search/stage_costs.h"

namespace oneflow {

// The counts of a stage with `blocks` blocks of each class that take least and need at most
// `capacity` bytes (0: no limit) by the lower bound; of these the first that need least. None where
// nothing fits. Of three classes or more with very many mixes, all but some are left out.
std::optional<KindCounts> ChooseCounts(const GroupCosts& costs, int stage,
                                       const ClassCounts& blocks, double capacity);

struct BlockMix {
  std::vector<KindCounts> counts;  // by stage
  double step_seconds = 0;
  double bytes = 0;  // of the stage that needs most: the lower bound
};

// With these blocks on the stages. None where a stage does not fit.
absl::StatusOr<std::optional<BlockMix>> ChooseMix(const GroupCosts& costs,
                                                  const std::vector<ClassCounts>& blocks,
                                                  double capacity);

// The mix that has these counts, by stage. None where it does not fit.
absl::StatusOr<std::optional<BlockMix>> TakeMix(const GroupCosts& costs,
                                                const std::vector<KindCounts>& counts,
                                                double capacity);

// The most bytes of a stage: the lower bound.
double FindBytes(const GroupCosts& costs, const std::vector<KindCounts>& counts);

// The numbers of blocks for which the longest stage takes least, each with its best counts. None
// where they do not fit. `classes`: by block, in their order along the pipe. Requires that a stage
// takes longer with a block more, and schedules without chunks.
std::optional<std::vector<int>> BalanceBlocks(const GroupCosts& costs,
                                              const std::vector<int>& classes, double capacity);

// The choice that says these counts. `slices`: blocks of each class in each slice along the pipe,
// stages times chunks; the chunks of a stage get equal parts of its counts, as nearly as can be.
// `gathers`: what the forward gathers of activations, the backward gathers again.
proto::Recompute MakeRecompute(const std::vector<KindCounts>& counts,
                               const std::vector<ClassCounts>& slices, bool gathers = false);

}  // namespace oneflow
