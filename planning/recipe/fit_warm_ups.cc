#include "planning/recipe/fit_warm_ups.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "glog/logging.h"

namespace oneflow {
namespace {

constexpr double kShorter = 1 - 1e-6;  // by so much, at least
constexpr int kMostQuarters = 20;      // of a W for each position down the pipe

TaskSeconds Mean(const PipeSeconds& seconds) {
  TaskSeconds mean{0, 0, 0};
  for (const TaskSeconds& stage : seconds.stages) {
    mean.forward += stage.forward;
    mean.backward += stage.backward;
    mean.weights += stage.weights;
  }
  const auto stages = static_cast<double>(seconds.stages.size());
  return {mean.forward / stages, mean.backward / stages, mean.weights / stages};
}

class Search {
 public:
  Search(const StageTimes& times, int64_t extra, int64_t most_tasks)
      : all_(times),
        few_(times),
        stages_(static_cast<int>(times.seconds.stages.size())),
        extra_(extra),
        most_tasks_(most_tasks) {
    few_.micro_batches = std::min(times.micro_batches, 3 * (stages_ + extra));
    fewer_ = few_;
    fewer_.micro_batches -= std::min<int64_t>(stages_, few_.micro_batches - 1);
  }

  std::vector<WarmUpDepth> Run() {
    // Among equally long steps the first is kept, which holds the least.
    const int64_t useful = std::min<int64_t>(extra_, stages_ - 1);
    for (const int64_t e : {int64_t{0}, useful, extra_, useful / 2, useful / 4}) {
      Try(EqualWarmUps(few_, e));
    }
    TryAlike();
    Descend();
    // The search has played fewer micro-batches: the result is checked with all of them.
    const std::vector<WarmUpDepth> equal = EqualWarmUps(all_, extra_);
    return StepSeconds(all_, best_) <= StepSeconds(all_, equal) ? best_ : equal;
  }

 private:
  // A stage s positions down the pipe ends so much earlier than the first that it has time for s
  // times some W; as many forwards go first as fit into the way down and up.
  void TryAlike() {
    const auto [forward, backward, weights] = Mean(few_.seconds);
    double link = 0;
    for (const double one : few_.seconds.links) link = std::max(link, one);
    const double a_stage = forward > 0 ? (backward + 2 * link) / forward : 0;
    for (int quarters = 0; quarters <= kMostQuarters; ++quarters) {
      std::vector<WarmUpDepth> warm_ups;
      for (int s = 0; s < stages_; ++s) {
        const int way = stages_ - 1 - s;
        const auto ahead = static_cast<int64_t>(std::ceil(std::min(way * a_stage, 1e9) - 1e-9));
        warm_ups.push_back(Allowed({way + 1 + std::min(extra_, ahead), (quarters * s + 2) / 4}, s));
      }
      Try(warm_ups);
    }
  }

  void Descend() {
    constexpr WarmUpDepth kMoves[] = {{0, 1},  {0, -1}, {1, 0}, {-1, 0},
                                      {1, -1}, {-1, 1}, {0, 2}, {0, -2}};
    for (bool found = true; found && tasks_ <= most_tasks_;) {
      found = false;
      for (int s = 0; s < stages_; ++s) {
        for (const WarmUpDepth& move : kMoves) {
          const WarmUpDepth warm_up{best_[s].forwards + move.forwards,
                                    best_[s].backwards + move.backwards};
          if (warm_up.forwards < 1 || warm_up.backwards < 0 || !(Allowed(warm_up, s) == warm_up))
            continue;
          if (tasks_ > most_tasks_) return;
          std::vector<WarmUpDepth> warm_ups = best_;
          warm_ups[s] = warm_up;
          found = Try(warm_ups) || found;
        }
      }
    }
  }

  // The part of a warm_up that the stage's bytes and the micro-batches allow.
  WarmUpDepth Allowed(const WarmUpDepth& warm_up, int s) const {
    const double kept = few_.kept_for_weights.empty() ? 1 : few_.kept_for_weights[s];
    const int64_t most = std::min(few_.micro_batches, stages_ + extra_);
    const int64_t forwards = std::min(warm_up.forwards, most);
    const auto room = static_cast<double>(stages_ + extra_ - forwards) / kept;
    return {forwards, std::min({warm_up.backwards, few_.micro_batches - forwards,
                                static_cast<int64_t>(std::min(room + 1e-9, 1e9))})};
  }

  // True if these are the best so far.
  bool Try(const std::vector<WarmUpDepth>& warm_ups) {
    double taken = Play(few_, warm_ups);
    if (const int64_t more = all_.micro_batches - few_.micro_batches; more > 0) {
      const auto between = static_cast<double>(few_.micro_batches - fewer_.micro_batches);
      taken += (taken - Play(fewer_, warm_ups)) / between * static_cast<double>(more);
    }
    if (!best_.empty() && !(taken < shortest_ * kShorter)) return false;
    shortest_ = taken;
    best_ = warm_ups;
    return true;
  }

  double Play(const StageTimes& times, const std::vector<WarmUpDepth>& warm_ups) {
    tasks_ += 3 * times.micro_batches * stages_;
    return StepSeconds(times, warm_ups);
  }

  // Invariant: few_ and fewer_ are all_ with as many micro-batches as show how a step grows.
  const StageTimes& all_;
  StageTimes few_, fewer_;
  const int stages_;
  const int64_t extra_, most_tasks_;
  int64_t tasks_ = 0;
  double shortest_ = std::numeric_limits<double>::infinity();
  std::vector<WarmUpDepth> best_;
};

}  // namespace

std::vector<WarmUpDepth> EqualWarmUps(const StageTimes& times, int64_t extra) {
  const int stages = static_cast<int>(times.seconds.stages.size());
  std::vector<WarmUpDepth> warm_ups;
  warm_ups.reserve(stages);
  for (int s = 0; s < stages; ++s) {
    warm_ups.push_back(EqualWarmUp({stages, s, times.micro_batches, 1, extra}));
  }
  return warm_ups;
}

double StepSeconds(const StageTimes& times, const std::vector<WarmUpDepth>& warm_ups) {
  const int stages = static_cast<int>(warm_ups.size());
  std::vector<StageOrder> orders;
  for (int s = 0; s < stages; ++s) {
    PipelineShape shape{stages, s, times.micro_batches};
    shape.warm_up = warm_ups[s];
    orders.push_back(ZeroBubbleOrder(shape));
  }
  const auto played = PlayOrders(orders, /*chunks=*/1, times.seconds);
  if (!played.ok()) return std::numeric_limits<double>::infinity();
  double longest = 0;
  for (const PlayedStep& stage : played->front()) {
    longest = std::max(longest, stage.end - (times.overlap ? stage.begin : 0));
  }
  return longest;
}

std::vector<WarmUpDepth> FitWarmUps(const StageTimes& times, int64_t extra, int64_t most_tasks) {
  CHECK(!times.seconds.stages.empty());
  return Search(times, extra, most_tasks).Run();
}

}  // namespace oneflow
