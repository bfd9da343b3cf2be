#include "planning/search/played_step.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "oneflow_core/base/status.h"
#include "planning/recipe/fit_warm_ups.h"

namespace oneflow {
namespace {

bool IsCovered(const Held& a, const Held& by) {
  const auto at_most = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), std::less_equal<>());
  };
  return at_most(a.activations, by.activations) && at_most(a.for_weights, by.for_weights) &&
         at_most(a.sums, by.sums);
}

// Requires times that are alike in `chunk` and `over`.
void AddHeld(const Held& now, std::vector<Held>* most) {
  const auto covers = [&](const Held& other) { return IsCovered(now, other); };
  if (std::any_of(most->begin(), most->end(), covers)) return;
  std::erase_if(*most, [&](const Held& other) { return IsCovered(other, now); });
  most->push_back(now);
}

std::vector<Held> CountHeldBy(const StageOrder& order, const Schedule& schedule) {
  Held now{std::vector<double>(schedule.chunks), std::vector<double>(schedule.chunks),
           std::vector<bool>(schedule.chunks)};
  std::vector<std::vector<Held>> most(2 * schedule.chunks);
  const auto add = [&] { AddHeld(now, &most[2 * now.chunk + (now.over ? 1 : 0)]); };
  for (const Task& task : Unrolled(order)) {
    const int c = now.chunk = task.chunk;
    switch (task.part) {
      case Part::kForward: ++now.activations[c]; continue;
      case Part::kBackward:
        now.over = false;
        add();
        now.over = true;
        --now.activations[c];
        if (schedule.splits_backward) {
          ++now.for_weights[c];
        } else {
          now.sums[c] = true;
        }
        break;
      case Part::kWeights:
        --now.for_weights[c];
        now.sums[c] = true;
        break;
      default: continue;
    }
    add();
  }
  std::vector<Held> all;
  for (std::vector<Held>& alike : most)
    std::move(alike.begin(), alike.end(), std::back_inserter(all));
  return all;
}

double FindEnd(const std::vector<PlayedStep>& step) {
  double end = 0;
  for (const PlayedStep& stage : step) end = std::max(end, stage.end);
  return end;
}

}  // namespace

Schedule FitToStages(Schedule schedule, const PipeSeconds& seconds, std::vector<double> kept,
                     int64_t micro_batches, bool overlap) {
  if (!schedule.splits_backward || seconds.stages.size() < 2) return schedule;
  const StageTimes times{seconds, std::move(kept), micro_batches, overlap};
  // Enough for 16 stages; of more, what else is gained is little.
  constexpr int64_t kMostTasks = int64_t{1} << 20;
  schedule.warm_ups = FitWarmUps(times, schedule.extra_in_flight, kMostTasks);
  return schedule;
}

Schedule WithLeastWarmUps(Schedule schedule, int stages, int64_t micro_batches) {
  if (!schedule.splits_backward || stages < 2) return schedule;
  schedule.warm_ups.clear();
  for (int s = 0; s < stages; ++s) {
    schedule.warm_ups.push_back({std::min<int64_t>(stages - s, micro_batches), 0});
  }
  return schedule;
}

absl::StatusOr<double> PlayedSeconds(const Schedule& schedule, const PipeSeconds& seconds,
                                     int64_t micro_batches, bool overlap) {
  const int stages = static_cast<int>(seconds.stages.size());
  const auto play = [&](int64_t m) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(
        const PlayedSteps steps,
        PlayOrders(MakeOrders(schedule, stages, m), schedule.chunks, seconds, overlap ? 2 : 1));
    return FindEnd(steps.back()) - (overlap ? FindEnd(steps.front()) : 0);
  };
  // Where transfers take time, a period takes not always as long: micro-batches go around in groups
  // of up to as many as there are stages. And unlike stages take a while until they keep step.
  constexpr int64_t kMostPlayed = 4096;  // micro-batches on a slice
  const int64_t period = Period(schedule, stages);
  const int64_t played = std::max<int64_t>(kMostPlayed / (stages * schedule.chunks), 4 * stages);
  const int64_t more = std::max<int64_t>(played / 2 / period, 1) * period;
  int64_t few = FewMicroBatches(schedule, stages, micro_batches) + more;
  few += ((micro_batches - few) % period + period) % period;
  if (few + more >= micro_batches) return play(micro_batches);
  ASSIGN_OR_RETURN(const double of_few, play(few));
  ASSIGN_OR_RETURN(const double of_more, play(few + more));
  return of_few +
         (of_more - of_few) * static_cast<double>(micro_batches - few) / static_cast<double>(more);
}

std::vector<std::vector<Held>> CountHeld(const Schedule& schedule, int stages,
                                         int64_t micro_batches) {
  // Only gpipe holds more with each micro-batch more.
  const int64_t few = schedule.order == GPipeOrder
                          ? micro_batches
                          : FewMicroBatches(schedule, stages, micro_batches);
  std::vector<std::vector<Held>> held;
  for (const StageOrder& order : MakeOrders(schedule, stages, few)) {
    held.push_back(CountHeldBy(order, schedule));
  }
  return held;
}

}  // namespace oneflow
