#include "tools/oneflow/promise.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

Promise APromise() {
  Promise promise{"by made-up times"};
  promise.step_seconds = 0.1;
  promise.mean = {.compute = 0.07, .exposed = 0.01, .hidden = 0, .idle = 0.02};
  promise.bubble = 0.2;
  promise.device_bytes = 3 << 20;
  return promise;
}

TEST_CASE("a promise is one line with its basis") {
  CHECK(PromiseText(APromise()) ==
        "expects: 100.000 ms a step, bubble 20.0 %, 3.0 MiB on the largest device; by made-up "
        "times\n");
}

TEST_CASE("the first step warms up; the median of the others counts") {
  StepTimes times;
  Took took;
  times.Sum(&took);
  CHECK(took.steps == 0);
  CHECK(TookText(APromise(), took).empty());
  times.Add(9);
  times.Sum(&took);
  CHECK(took.steps == 1);
  CHECK(took.step_seconds == 9);
  for (const double seconds : {0.1, 0.2, 0.11, 5.0, 0.12}) times.Add(seconds);
  times.Sum(&took);
  CHECK(took.steps == 5);
  CHECK(took.step_seconds == 0.12);
}

TEST_CASE("a table holds what it took against the promise, by cause") {
  Took took{.step_seconds = 0.125, .steps = 7, .use = std::nullopt, .device_bytes = 3 << 20};
  took.use.emplace();
  took.use->first_step = 1;
  took.use->steps = 4;
  took.use->mean = {.compute = 0.084, .exposed = 0.01, .hidden = 0, .idle = 0.031};
  took.use->bubble = 0.25;
  const std::string text = TookText(APromise(), took);
  CHECK(text ==
        "  a step                    promised          took\n"
        "  time                    100.000 ms    125.000 ms  +25.0 %\n"
        "  compute                  70.000 ms     84.000 ms  +20.0 %\n"
        "  exposed exchange         10.000 ms     10.000 ms\n"
        "  idle                     20.000 ms     31.000 ms\n"
        "  bubble                      20.0 %        25.0 %\n"
        "  memory of a device         3.0 MiB       3.0 MiB\n"
        "  time: the median of 7 steps; causes: of 4 from step 1 on, mean of the devices\n");
  const nlohmann::ordered_json json = TookJson(APromise(), took);
  CHECK(json["promised"]["step_seconds"] == 0.1);
  CHECK(json["promised"]["idle_seconds"] == 0.02);
  CHECK(json["took"]["step_seconds"] == 0.125);
  CHECK(json["took"]["bubble"] == 0.25);
}

TEST_CASE("the longest stream is that with most firings in a step") {
  proto::Plan plan;
  CHECK(MostFiringsOfStream(plan) == 0);
  proto::Program* program = plan.add_program();
  program->set_name("train");
  for (const int actors : {3, 5}) {
    proto::Segment* segment = program->add_segment();
    for (int a = 0; a < actors; ++a) segment->add_actor(a);
  }
  for (const int repeat : {1, 4}) {
    proto::OrderRun* run = program->add_stream()->add_order();
    run->add_segment(0);
    run->add_segment(1);
    run->set_repeat(repeat);
  }
  CHECK(MostFiringsOfStream(plan) == 4 * 8);
}

}  // namespace
}  // namespace oneflow
