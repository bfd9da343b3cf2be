// Finds warm-up depths of zero bubble for stages whose times are known: how far each stage runs
// ahead.
//
//   const StageTimes times{.seconds = seconds, .micro_batches = 64, .overlap = true};
//   schedule.warm_ups = FitWarmUps(times, /*extra=*/4);
//
// In a GPT, W takes less time than F and B, because attention's own products add to F and B and
// have no weights. So more W are needed to fill the end of a step than equal times suggest. They
// also cost less memory: W needs less of a micro-batch than its F saved. With the times that Zero
// Bubble (Qi et al., ICLR'24) profiled, the depths found here idle as little as those of its
// search.
//
// It is a search, not an optimum. It plays the depths of equal times, and those of times that are
// alike on all stages (play_orders.h), then changes the depths of single stages while that helps.
// With many micro-batches it plays fewer, and extrapolates the growth of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/play_orders.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// The times of a pipeline's stages in training.
struct StageTimes {
  PipeSeconds seconds;
  // By stage: bytes that a micro-batch takes from B to W, over those from F to B; above 0. Empty:
  // equal.
  std::vector<double> kept_for_weights;
  int64_t micro_batches = 1;
  bool overlap =
      false;  // a step is over for a stage when its own work is; else, when that of all is
};

// Returns by stage the depths of the shortest step found, never longer than with those for equal
// times. A stage takes the bytes of P + `extra` saved micro-batches at most, or as many as those
// for equal times take. A pure function; plays about `most_tasks` tasks at most.
std::vector<WarmUpDepth> FitWarmUps(const StageTimes& times, int64_t extra,
                                    int64_t most_tasks = int64_t{1} << 24);

// The depths for equal times.
std::vector<WarmUpDepth> EqualWarmUps(const StageTimes& times, int64_t extra);

// The seconds of a step.
double StepSeconds(const StageTimes& times, const std::vector<WarmUpDepth>& warm_ups);

}  // namespace oneflow
