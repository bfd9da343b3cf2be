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

// The time of a step when its orders are played. With many micro-batches, fewer are played: each
// period more takes as long.
absl::StatusOr<double> PlayedSeconds(const Schedule& schedule, const PipeSeconds& seconds,
                                     int64_t micro_batches);

// The micro-batches of which a stage holds activations, all of its chunks together, and those of
// which it holds what W needs, at the time when both together take most.
struct Held {
  double activations = 0;  // from F to B
  double for_weights = 0;  // from B to W, where the schedule splits them
};
// By stage. `kept`: as above; empty: 1.
std::vector<Held> CountHeld(const Schedule& schedule, int stages, int64_t micro_batches,
                            const std::vector<double>& kept);

}  // namespace oneflow
