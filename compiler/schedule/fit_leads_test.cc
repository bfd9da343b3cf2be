#include "compiler/schedule/fit_leads.h"

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

double Bubble(const Pipe& pipe, const std::vector<Lead>& leads) {
  double work = 0;
  for (const TaskSeconds& s : pipe.seconds.stages) {
    work = std::max(work,
                    static_cast<double>(pipe.micro_batches) * (s.forward + s.backward + s.weights));
  }
  return 1 - work / StepSeconds(pipe, leads);
}

TEST_CASE("what is found idles as little as what Zero Bubble's search found") {
  for (const auto& [stages, m, each, transfer, kept, one, two] : kPublished) {
    Pipe pipe{.seconds = Alike(stages, each), .micro_batches = m, .overlap = true};
    pipe.seconds.links.assign(stages, transfer);
    pipe.kept_for_weights.assign(stages, kept);
    CHECK(Bubble(pipe, FitLeads(pipe, 0)) < one + 1e-4);
    CHECK(Bubble(pipe, FitLeads(pipe, stages)) < two + 1e-3);
    // Where W needs all that F saved, twice the memory is not enough for that.
    pipe.kept_for_weights.clear();
    CHECK(Bubble(pipe, FitLeads(pipe, stages)) > two + 1e-2);
  }
}

TEST_CASE("equal times keep the leads for equal times") {
  for (const int stages : {2, 3, 4, 8}) {
    Pipe pipe{.seconds = Alike(stages, {1, 1, 1}), .micro_batches = 3 * stages, .overlap = true};
    for (int64_t e = 0; e < stages; ++e) CHECK(FitLeads(pipe, e) == EqualLeads(pipe, e));
    pipe.overlap = false;
    CHECK(FitLeads(pipe, stages) == EqualLeads(pipe, 0));
  }
}

TEST_CASE("never longer than with the leads for equal times, and within what may be held") {
  std::mt19937 random(7);
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  int drawn = 0, shorter = 0;
  for (int i = 0; i < 100; ++i) {
    const int stages = 2 + static_cast<int>(random() % 7);
    const auto e = static_cast<int64_t>(random() % (2 * stages + 1));
    Pipe pipe{.micro_batches = 1 + static_cast<int64_t>(random() % 120),
              .overlap = random() % 2 == 0};
    const TaskSeconds each{1, draw(.8, 1.4), draw(.3, 1)};
    for (int s = 0; s < stages; ++s) {
      const double size = draw(.95, 1.05);
      pipe.seconds.stages.push_back(
          {size * each.forward, size * each.backward, size * each.weights});
      pipe.kept_for_weights.push_back(draw(.3, 1));
    }
    for (int s = 0; s < stages; ++s) pipe.seconds.links.push_back(draw(0, .1));
    INFO(stages << " stages, " << pipe.micro_batches << " micro-batches, " << e << " extra");
    const std::vector<Lead> leads = FitLeads(pipe, e);
    REQUIRE(leads.size() == static_cast<size_t>(stages));
    for (int s = 0; s < stages; ++s) {
      CHECK(leads[s].forwards >= 1);
      CHECK(leads[s].backwards >= 0);
      const double held = static_cast<double>(leads[s].forwards) +
                          pipe.kept_for_weights[s] * static_cast<double>(leads[s].backwards);
      CHECK(held <= static_cast<double>(stages + e) + 1e-6);
    }
    const double equal = StepSeconds(pipe, EqualLeads(pipe, e)), fitted = StepSeconds(pipe, leads);
    CHECK(fitted <= equal * (1 + 1e-9));
    if (!pipe.overlap || e == 0) continue;
    if (pipe.micro_batches < 2 * stages || pipe.micro_batches > 60) continue;
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
    Pipe pipe{.seconds = Alike(stages, each), .micro_batches = m, .overlap = true};
    pipe.seconds.links.assign(stages, link);
    pipe.kept_for_weights.assign(stages, .7);
    CHECK(StepSeconds(pipe, FitLeads(pipe, extra)) <= StepSeconds(pipe, EqualLeads(pipe, extra)));
  }
}

TEST_CASE("a long pipe is tried with all that it may hold before the tasks are used up") {
  const Pipe pipe{.seconds = Alike(192, {1, 1, 1}), .micro_batches = 1536, .overlap = true};
  CHECK(FitLeads(pipe, 191) == EqualLeads(pipe, 191));
}

TEST_CASE("a stage without gradients of weights, and tasks that take no time") {
  for (const TaskSeconds& each :
       {TaskSeconds{1, 1, 0}, TaskSeconds{0, 1, 1}, TaskSeconds{0, 0, 0}}) {
    CHECK(FitLeads({.seconds = Alike(4, each), .micro_batches = 12}, 4).size() == 4);
  }
  CHECK(FitLeads({.seconds = Alike(1, {1, 1, 1})}, 0) == std::vector<Lead>{{1, 0}});
}

}  // namespace
}  // namespace oneflow
