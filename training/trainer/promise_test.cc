#include "training/trainer/promise.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace oneflow {
namespace {

Promise APromise() {
  Promise promise{"by made-up times"};
  promise.step_seconds = 0.1;
  promise.mean = {.compute = 0.07, .exposed = 0.01, .hidden = 0, .idle = 0.02};
  promise.bubble = 0.2;
  promise.device_bytes = 3 << 20;
  promise.device_tokens = 250;
  return promise;
}

TEST_CASE("a promise is one line with its basis") {
  CHECK(PromiseText(APromise()) ==
        "expects: 100.000 ms a step, bubble 20.0 %, 3.0 MiB on the largest device; by made-up "
        "times\n");
  Promise on_cluster = APromise();
  on_cluster.band = Band{
      .systems = 1, .sigma = 0.08, .system = "one", .runs = 2, .models = 1, .what = "One on H100s"};
  CHECK(PromiseText(on_cluster)
            .starts_with("expects: 100.000 ms a step ± 8 % (1 σ of 2 runs of 1 model by One on "
                         "H100s), bubble 20.0 %, "));
  CHECK(TookJson(APromise(), {})["promised"]["compared"].is_null());
  const nlohmann::ordered_json json = TookJson(on_cluster, {})["promised"];
  CHECK(json["compared"]["low_seconds"].get<double>() == Approx(0.1 * std::exp(-0.08)));
}

TEST_CASE("the first step warms up; the median of the others counts") {
  StepTimes times;
  Took took;
  times.Sum(&took);
  CHECK(took.steps == 0);
  CHECK(TookText(APromise(), took).empty());
  times.Add(9, 18);
  times.Sum(&took);
  CHECK(took.steps == 1);
  CHECK(took.step_seconds == 9);
  CHECK(took.threads_running == 2);
  double cpu_seconds = 18;  // three threads run
  for (const double seconds : {0.1, 0.2, 0.11, 5.0, 0.12}) {
    times.Add(seconds, cpu_seconds += 3 * seconds);
  }
  times.Sum(&took);
  CHECK(took.steps == 5);
  CHECK(took.step_seconds == 0.12);
  CHECK(took.threads_running == Approx(3));
}

TEST_CASE("a table holds what it took against the promise, by cause") {
  Took took{.step_seconds = 0.12,
            .steps = 7,
            .threads_running = 1.7,
            .use = std::nullopt,
            .devices = 2,
            .device_bytes = 3 << 20};
  took.use.emplace();
  took.use->step_seconds = 0.125;
  took.use->first_step = 1;
  took.use->steps = 4;
  took.use->mean = {.compute = 0.084, .exposed = 0.01, .hidden = 0, .idle = 0.031};
  took.use->bubble = 0.25;
  const std::string text = TookText(APromise(), took);
  CHECK(text ==
        "  a step                    promised          took\n"
        "  time, the median        100.000 ms    120.000 ms  +20.0 %\n"
        "  time, the mean          100.000 ms    125.000 ms  +25.0 %\n"
        "    compute                70.000 ms     84.000 ms  +20.0 %\n"
        "    exposed exchange       10.000 ms     10.000 ms\n"
        "    idle                   20.000 ms     31.000 ms\n"
        "  bubble                      20.0 %        25.0 %\n"
        "  tokens/s a device            2,500         2,083\n"
        "  memory of a device         3.0 MiB       3.0 MiB\n"
        "  the median: of 7 steps; the mean, which its parts add up to: of 4 from step 1 on, over "
        "the devices\n");
  const nlohmann::ordered_json json = TookJson(APromise(), took);
  CHECK(json["promised"]["step_seconds"] == 0.1);
  CHECK(json["promised"]["idle_seconds"] == 0.02);
  CHECK(json["promised"]["tokens_per_second_per_device"] == 2500);
  CHECK(json["took"]["tokens_per_second_per_device"] == Approx(250 / 0.12));
  CHECK(json["took"]["step_seconds"] == 0.12);
  CHECK(json["took"]["mean_step_seconds"] == 0.125);
  CHECK(json["took"]["bubble"] == 0.25);
  CHECK(json["took"]["machine_was_busy"] == false);
}

TEST_CASE("a machine that keeps the run waiting for cores is named") {
  Took took{.step_seconds = 8, .steps = 7, .use = std::nullopt, .devices = 2};
  CHECK_FALSE(WasBusy(took));
  // Two devices compute for 6 of 8 seconds: one thread and a half run at least.
  took.use.emplace();
  took.use->step_seconds = 8;
  took.use->mean = {.compute = 6, .exposed = 0.5, .hidden = 0, .idle = 1.5};
  for (const double running : {1.4, 1.5, 2.0, 16.0}) {
    took.threads_running = running;
    CHECK_FALSE(WasBusy(took));
    CHECK(TookText(APromise(), took).find("busy") == std::string::npos);
  }
  took.threads_running = 0.03;
  CHECK(WasBusy(took));
  CHECK_THAT(TookText(APromise(), took),
             Catch::EndsWith("the machine was busy: kernels took 6.000 s of a step, for 2 % of "
                             "which they had a core; compare again on a quiet one\n"));
  CHECK(TookJson(APromise(), took)["took"]["machine_was_busy"] == true);
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
