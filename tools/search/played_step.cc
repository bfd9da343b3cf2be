#include "tools/search/played_step.h"

#include <algorithm>

#include "compiler/schedule/fit_warm_ups.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

Schedule FitToStages(Schedule schedule, const PipeSeconds& seconds, std::vector<double> kept,
                     int64_t micro_batches, bool overlap) {
  if (!schedule.splits_backward || seconds.stages.size() < 2) return schedule;
  const StageTimes times{seconds, std::move(kept), micro_batches, overlap};
  schedule.warm_ups = FitWarmUps(times, schedule.extra_in_flight);
  return schedule;
}

absl::StatusOr<double> PlayedSeconds(const Schedule& schedule, const PipeSeconds& seconds,
                                     int64_t micro_batches) {
  const int stages = static_cast<int>(seconds.stages.size());
  const auto play = [&](int64_t m) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const PlayedSteps steps,
                     PlayOrders(MakeOrders(schedule, stages, m), schedule.chunks, seconds));
    double end = 0;
    for (const PlayedStep& stage : steps[0]) end = std::max(end, stage.end);
    return end;
  };
  const int64_t period = Period(schedule, stages);
  int64_t few = FewMicroBatches(schedule, stages, micro_batches) + 2 * period;
  few += ((micro_batches - few) % period + period) % period;
  if (few + period >= micro_batches) return play(micro_batches);
  ASSIGN_OR_RETURN(const double of_few, play(few));
  ASSIGN_OR_RETURN(const double of_more, play(few + period));
  return of_few + (of_more - of_few) * static_cast<double>((micro_batches - few) / period);
}

std::vector<Held> CountHeld(const Schedule& schedule, int stages, int64_t micro_batches,
                            const std::vector<double>& kept) {
  const int64_t few = std::min(micro_batches, FewMicroBatches(schedule, stages, micro_batches));
  const std::vector<StageOrder> orders = MakeOrders(schedule, stages, few);
  std::vector<Held> held;
  for (int s = 0; s < stages; ++s) {
    const double weight = kept.empty() ? 1 : kept[s];
    Held now, most;
    double best = -1;
    const double part = 1.0 / schedule.chunks;
    for (const Task& task : Unrolled(orders[s])) {
      if (task.part == Part::kForward) now.activations += part;
      if (task.part == Part::kBackward) {
        if (schedule.splits_backward) now.for_weights += part;
        now.activations -= part;
      }
      // The most at any time, and at the first time of that.
      const double bytes = now.activations + weight * now.for_weights;
      if (bytes > best + 1e-9) {
        best = bytes;
        most = now;
      }
      if (task.part == Part::kWeights) now.for_weights -= part;
    }
    held.push_back(most);
  }
  return held;
}

}  // namespace oneflow
