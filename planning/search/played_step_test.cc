#include "planning/search/played_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "oneflow_core/base/status.h"
#include "planning/search/draw_for_test.h"

namespace oneflow {
namespace {

Schedule Make(const std::string& name, int chunks = 1) {
  Schedule schedule = *FindSchedule(name);
  schedule.chunks = chunks;
  return schedule;
}

// What a stage holds after the first `done` of its tasks, counted from the first one on.
Held CountAfter(const std::vector<Task>& tasks, size_t done, bool splits, int chunks) {
  Held held;
  for (int c = 0; c < chunks; ++c) {
    const auto count = [&](Part part) {
      return static_cast<double>(
          std::count(tasks.begin(), tasks.begin() + static_cast<int64_t>(done), Task{part, c}));
    };
    const double backwards = count(Part::kBackward), weights = count(Part::kWeights);
    held.activations.push_back(count(Part::kForward) - backwards);
    held.for_weights.push_back(splits ? backwards - weights : 0);
    held.sums.push_back((splits ? weights : backwards) > 0);
  }
  return held;
}

// All times of a step at which a B begins or something is freed.
std::vector<Held> CountPlainly(const std::vector<Task>& tasks, bool splits, int chunks) {
  std::vector<Held> all;
  const auto add = [&](size_t done, int chunk, bool over) {
    all.push_back(CountAfter(tasks, done, splits, chunks));
    all.back().chunk = chunk, all.back().over = over;
  };
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Part part = tasks[i].part;
    if (part == Part::kBackward) add(i, tasks[i].chunk, false);
    if (part == Part::kBackward || part == Part::kWeights) add(i + 1, tasks[i].chunk, true);
  }
  return all;
}

bool AreAlike(const Held& a, const Held& b) { return a.chunk == b.chunk && a.over == b.over; }

bool IsSame(const Held& a, const Held& b) {
  return AreAlike(a, b) && a.activations == b.activations && a.for_weights == b.for_weights &&
         a.sums == b.sums;
}

bool HoldsAsMuch(const Held& a, const Held& b) {
  for (size_t c = 0; c < a.activations.size(); ++c) {
    if (a.activations[c] < b.activations[c] || a.for_weights[c] < b.for_weights[c]) return false;
    if (b.sums[c] && !a.sums[c]) return false;
  }
  return AreAlike(a, b);
}

void CompareHeld(const Schedule& schedule, int stages, int64_t micro_batches) {
  INFO(schedule.name << ", " << schedule.chunks << " chunks, " << stages << " stages, "
                     << micro_batches << " micro-batches");
  const std::vector<std::vector<Held>> held = CountHeld(schedule, stages, micro_batches);
  const std::vector<StageOrder> orders = MakeOrders(schedule, stages, micro_batches);
  REQUIRE(std::ssize(held) == stages);
  for (int s = 0; s < stages; ++s) {
    INFO("stage " << s);
    const std::vector<Held> plain =
        CountPlainly(Unrolled(orders[s]), schedule.splits_backward, schedule.chunks);
    const auto covered = [&](const Held& time) {
      return std::any_of(held[s].begin(), held[s].end(),
                         [&](const Held& h) { return HoldsAsMuch(h, time); });
    };
    const auto occurs = [&](const Held& h) {
      return std::any_of(plain.begin(), plain.end(),
                         [&](const Held& time) { return IsSame(h, time); });
    };
    CHECK(std::all_of(plain.begin(), plain.end(), covered));
    CHECK(std::all_of(held[s].begin(), held[s].end(), occurs));
    // No time is listed beside one that covers it.
    for (const Held& a : held[s]) {
      CHECK(std::count_if(held[s].begin(), held[s].end(),
                          [&](const Held& b) { return HoldsAsMuch(b, a); }) == 1);
    }
  }
}

TEST_CASE("held: of 1f1b, as many micro-batches as stages are left") {
  const std::vector<std::vector<Held>> held = CountHeld(Make("1f1b"), 3, 8);
  for (int s = 0; s < 3; ++s) {
    double begin = 0, over = 0;
    for (const Held& h : held[s]) {
      double& most = h.over ? over : begin;
      most = std::max(most, h.activations[0]);
      CHECK(h.for_weights[0] == 0);
    }
    CHECK(begin == 3 - s);
    CHECK(over == 2 - s);
  }
}

TEST_CASE("held: of tasks that are written by hand") {
  const Task f{Part::kForward}, b{Part::kBackward}, w{Part::kWeights};
  Schedule schedule = Make("zero_bubble");
  schedule.order = nullptr;
  schedule.written = {{{{f, f, b, f, b, w, b, w, w}, 1}}};
  schedule.written_for = 3;
  const std::vector<std::vector<Held>> held = CountHeld(schedule, 1, 3);
  REQUIRE(held.size() == 1);
  const auto has = [&](double activations, double for_weights, bool sums, bool over) {
    return std::any_of(held[0].begin(), held[0].end(), [&](const Held& h) {
      return IsSame(h, {{activations}, {for_weights}, {sums}, 0, over});
    });
  };
  CHECK(held[0].size() == 5);
  CHECK(has(2, 1, false, false));  // the second B begins
  CHECK(has(1, 1, true, false));   // the third B begins: fewer activations, but sums
  CHECK(has(1, 2, false, true));   // the second B is over
  CHECK(has(1, 1, true, true));    // the first W is over
  CHECK(has(0, 2, true, true));    // the third B is over
}

TEST_CASE("held: each time of a step is covered, and what is listed occurs") {
  for (const int stages : {1, 2, 3, 4, 5}) {
    for (const int64_t m : {1, 2, 3, 5, 8, 13, 24}) {
      CompareHeld(Make("1f1b"), stages, m);
      CompareHeld(Make("gpipe"), stages, m);
      CompareHeld(Make("zero_bubble"), stages, m);
      CompareHeld(WithLeastWarmUps(Make("zero_bubble"), stages, m), stages, m);
      for (const int chunks : {2, 3}) CompareHeld(Make("interleaved", chunks), stages, m);
    }
  }
}

TEST_CASE("held: with warm-ups of each stage drawn at random") {
  Dice dice(1);
  for (int i = 0; i < 60; ++i) {
    const int stages = static_cast<int>(2 + dice.Below(4));
    const int64_t m = 1 + dice.Below(24);
    Schedule schedule = Make("zero_bubble");
    for (int s = 0; s < stages; ++s) {
      schedule.warm_ups.push_back({stages - s + dice.Below(3), dice.Below(5)});
    }
    CompareHeld(schedule, stages, m);
  }
}

// Of stages of which some take up to `spread` longer than others.
PipeSeconds DrawSeconds(int stages, int chunks, double spread, double link, Dice* dice) {
  PipeSeconds seconds;
  for (int s = 0; s < stages * chunks; ++s) {
    const auto draw = [&](double least) { return least * (1 + spread * dice->Share()); };
    const TaskSeconds task{draw(1), draw(1.2), draw(.8)};
    if (s < stages) seconds.stages.push_back(task);
    seconds.slices.push_back(task);
    seconds.ahead.push_back(dice->Chance(.5) ? .3 * dice->Share() : 0);
  }
  for (int s = 0; s < stages; ++s) seconds.links.push_back(link * dice->Share());
  return seconds;
}

// Of a step, all of whose micro-batches are played.
double PlayAll(const Schedule& schedule, const PipeSeconds& seconds, int64_t m, bool overlap) {
  const int stages = static_cast<int>(seconds.stages.size());
  const absl::StatusOr<PlayedSteps> steps =
      PlayOrders(MakeOrders(schedule, stages, m), schedule.chunks, seconds, overlap ? 2 : 1);
  INFO(steps.status().message());
  REQUIRE(steps.ok());
  std::vector<double> ends;
  for (const std::vector<PlayedStep>& step : *steps) {
    double end = 0;
    for (const PlayedStep& stage : step) end = std::max(end, stage.end);
    ends.push_back(end);
  }
  return overlap ? ends[1] - ends[0] : ends[0];
}

// By how much of a step PlayedSeconds differs at most, with `least` micro-batches or more.
double MostOff(const std::string& name, double spread, double link, int64_t least) {
  Dice dice(2);
  double most = 0;
  for (int i = 0; i < 20; ++i) {
    const int stages = static_cast<int>(1 + dice.Below(6));
    const int chunks = name == "interleaved" ? static_cast<int>(2 + dice.Below(2)) : 1;
    const int64_t m = least + dice.Below(least);
    const bool overlap = dice.Chance(.5);
    const PipeSeconds seconds = DrawSeconds(stages, chunks, spread, link, &dice);
    const Schedule schedule =
        FitToStages(Make(name, chunks), seconds, std::vector<double>(stages, .5), m, overlap);
    const absl::StatusOr<double> played = PlayedSeconds(schedule, seconds, m, overlap);
    REQUIRE(played.ok());
    most = std::max(most, std::abs(*played / PlayAll(schedule, seconds, m, overlap) - 1));
  }
  return most;
}

constexpr const char* kNames[] = {"1f1b", "gpipe", "interleaved", "zero_bubble"};

TEST_CASE("played: a step takes what all of its micro-batches take, one by one") {
  for (const double spread : {0., .05, .2, 1.}) {
    for (const double link : {0., .1, .5, 3.}) {
      for (const char* const name : kNames) {
        INFO(name << ", stages up to " << spread << " longer, links of up to " << link);
        CHECK(MostOff(name, spread, link, 100) <= 1e-9);
      }
    }
  }
}

// Of so many, fewer are played. What they then take repeats only in groups, so that the rest of a
// group is missed: over 40 draws of each kind, at most 1.1e-3 of a step.
TEST_CASE("played: so many micro-batches that fewer are played") {
  for (const char* const name : kNames) {
    INFO(name);
    CHECK(MostOff(name, 0, 0, 1500) <= 1e-9);
    for (const double spread : {0., .05, 1.}) {
      for (const double link : {.1, 3.}) CHECK(MostOff(name, spread, link, 1500) <= 2e-3);
    }
  }
}

}  // namespace
}  // namespace oneflow
