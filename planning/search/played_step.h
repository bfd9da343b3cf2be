// The order of a schedule, played with the seconds of its stages: how long a step takes, and how
// many micro-batches a stage holds. No plan is made.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/play_orders.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// `schedule` with warm-ups that suit the stages, if it has any (fit_warm_ups.h). `kept`: by stage,
// bytes from B to W over those from F to B.
Schedule FitToStages(Schedule schedule, const PipeSeconds& seconds, std::vector<double> kept,
                     int64_t micro_batches, bool overlap);

// The time of a step when its orders are played. With many micro-batches, fewer are played, and
// the others take as long as the last of these on average. `overlap`: a stage begins the next step
// when its own part of one is over, else when that of all is.
absl::StatusOr<double> PlayedSeconds(const Schedule& schedule, const PipeSeconds& seconds,
                                     int64_t micro_batches, bool overlap);

// `schedule` with warm-ups, if it has any, that hold no more than those of any stages.
Schedule WithLeastWarmUps(Schedule schedule, int stages, int64_t micro_batches);

// The contents of a stage at a time of a step.
struct Held {
  // By chunk: micro-batches of which it holds activations, from F to B, and what W needs, from B to
  // W, where the schedule splits them.
  std::vector<double> activations, for_weights;
  std::vector<bool> sums;  // by chunk: whether it holds sums of gradients
  int chunk = 0;           // whose B begins
  bool over = false;       // true: it is over, or its W is
};

// By stage: the times when a B begins or a task is over that frees something; without those at
// which another one like it holds as much of all.
std::vector<std::vector<Held>> CountHeld(const Schedule& schedule, int stages,
                                         int64_t micro_batches);

}  // namespace oneflow
