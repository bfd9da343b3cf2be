#include "planning/recipe/fit_warm_ups.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace oneflow {
namespace {

// Zero Bubble's stages (Qi et al., ICLR'24), and the bubbles of its schedules, of a step.
struct Published {
  int stages;
  int64_t micro_batches;
  TaskSeconds seconds;  // milliseconds
  double transfer;
  double kept;          // its 32 h of 34 h + 5 a s bytes a token
  double zb_1p, zb_2p;  // within the memory of P saved micro-batches, and of 2 P
};
constexpr Published kPublished[] = {
    {8, 24, {18.522, 18.086, 9.337}, 0.601, 32. / (34 + 5. * 24 * 1024 / 2304), .1585, .0433},
    {16, 48, {11.347, 11.248, 8.132}, 0.377, 32. / (34 + 5. * 40 * 1024 / 5120), .1397, .0066}};

double Bubble(const StageTimes& times, const std::vector<WarmUpDepth>& warm_ups) {
  double work = 0;
  for (const TaskSeconds& s : times.seconds.stages) {
    work = std::max(
        work, static_cast<double>(times.micro_batches) * (s.forward + s.backward + s.weights));
  }
  return 1 - work / StepSeconds(times, warm_ups);
}

TEST_CASE("what is found idles as little as what Zero Bubble's search found") {
  for (const auto& [stages, m, each, transfer, kept, one, two] : kPublished) {
    StageTimes times{.seconds = Alike(stages, each), .micro_batches = m, .overlap = true};
    times.seconds.links.assign(stages, transfer);
    times.kept_for_weights.assign(stages, kept);
    CHECK(Bubble(times, FitWarmUps(times, 0)) < one + 1e-4);
    CHECK(Bubble(times, FitWarmUps(times, stages)) < two + 1e-3);
    // Where W needs all that F saved, twice the memory is not enough for that.
    times.kept_for_weights.clear();
    CHECK(Bubble(times, FitWarmUps(times, stages)) > two + 1e-2);
  }
}

TEST_CASE("equal times keep the warm_ups for equal times") {
  for (const int stages : {2, 3, 4, 8}) {
    StageTimes times{
        .seconds = Alike(stages, {1, 1, 1}), .micro_batches = 3 * stages, .overlap = true};
    for (int64_t e = 0; e < stages; ++e) CHECK(FitWarmUps(times, e) == EqualWarmUps(times, e));
    times.overlap = false;
    CHECK(FitWarmUps(times, stages) == EqualWarmUps(times, 0));
  }
}

TEST_CASE("never longer than with the warm_ups for equal times, and within what may be held") {
  std::mt19937 random(7);
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  int drawn = 0, shorter = 0;
  for (int i = 0; i < 100; ++i) {
    const int stages = 2 + static_cast<int>(random() % 7);
    const auto e = static_cast<int64_t>(random() % (2 * stages + 1));
    StageTimes times{.micro_batches = 1 + static_cast<int64_t>(random() % 120),
                     .overlap = random() % 2 == 0};
    const TaskSeconds each{1, draw(.8, 1.4), draw(.3, 1)};
    for (int s = 0; s < stages; ++s) {
      const double size = draw(.95, 1.05);
      times.seconds.stages.push_back(
          {size * each.forward, size * each.backward, size * each.weights});
      times.kept_for_weights.push_back(draw(.3, 1));
    }
    for (int s = 0; s < stages; ++s) times.seconds.links.push_back(draw(0, .1));
    INFO(stages << " stages, " << times.micro_batches << " micro-batches, " << e << " extra");
    const std::vector<WarmUpDepth> warm_ups = FitWarmUps(times, e);
    REQUIRE(warm_ups.size() == static_cast<size_t>(stages));
    for (int s = 0; s < stages; ++s) {
      CHECK(warm_ups[s].forwards >= 1);
      CHECK(warm_ups[s].backwards >= 0);
      const double held = static_cast<double>(warm_ups[s].forwards) +
                          times.kept_for_weights[s] * static_cast<double>(warm_ups[s].backwards);
      CHECK(held <= static_cast<double>(stages + e) + 1e-6);
    }
    const double equal = StepSeconds(times, EqualWarmUps(times, e)),
                 fitted = StepSeconds(times, warm_ups);
    CHECK(fitted <= equal * (1 + 1e-9));
    if (!times.overlap || e == 0) continue;
    if (times.micro_batches < 2 * stages || times.micro_batches > 60) continue;
    ++drawn;
    if (fitted < .99 * equal) ++shorter;
  }
  CHECK(drawn >= 10);
  CHECK(3 * shorter > drawn);
}

TEST_CASE("many micro-batches do not lose what is won at a step's ends") {
  struct Steep {
    int stages;
    int64_t extra, micro_batches;
    TaskSeconds each;
    double link;
  };
  for (const auto& [stages, extra, m, each, link] :
       {Steep{5, 5, 512, {1, .95, .3}, .25}, Steep{8, 8, 256, {1, .95, .35}, .3},
        Steep{4, 3, 96, {1, .9, .3}, .25}}) {
    StageTimes times{.seconds = Alike(stages, each), .micro_batches = m, .overlap = true};
    times.seconds.links.assign(stages, link);
    times.kept_for_weights.assign(stages, .7);
    CHECK(StepSeconds(times, FitWarmUps(times, extra)) <=
          StepSeconds(times, EqualWarmUps(times, extra)));
  }
}

TEST_CASE("a long pipe is tried with all that it may hold before the tasks are used up") {
  const StageTimes times{.seconds = Alike(192, {1, 1, 1}), .micro_batches = 1536, .overlap = true};
  CHECK(FitWarmUps(times, 191) == EqualWarmUps(times, 191));
}

TEST_CASE("a stage without gradients of weights, and tasks that take no time") {
  for (const TaskSeconds& each :
       {TaskSeconds{1, 1, 0}, TaskSeconds{0, 1, 1}, TaskSeconds{0, 0, 0}}) {
    CHECK(FitWarmUps({.seconds = Alike(4, each), .micro_batches = 12}, 4).size() == 4);
  }
  CHECK(FitWarmUps({.seconds = Alike(1, {1, 1, 1})}, 0) == std::vector<WarmUpDepth>{{1, 0}});
}

}  // namespace
}  // namespace oneflow
