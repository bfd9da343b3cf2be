// The simulated bubble of compiled plans against the formulas of the field, for stages that take
// the same time and links that take none.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "oneflow_core/plan/plan_lookup.h"
#include "planning/simulate/simulate.h"
#include "planning/simulate/simulate_on.h"
#include "planning/simulate/utilization.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

// Times of a stage for one micro-batch; chunks share them. B includes W's time if they are one
// segment.
struct StageTimes {
  double forward = 1, activations = 1, weights = 1;
  double transfer = 0;  // of activations or their gradients, from stage to stage
  double work() const { return forward + activations + weights; }
};

// The first actor of each F, B and W takes the time of its segment, a send and its receive that of
// a transfer, all others none.
std::vector<double> ActorTimes(const proto::Program& program, const proto::ProgramFacts& facts,
                               int chunks, const StageTimes& times) {
  const auto named = [](const proto::Segment& segment, char part) {
    return segment.name()[0] == part &&
           std::all_of(segment.name().begin() + 1, segment.name().end(),
                       [](unsigned char c) { return std::isdigit(c); });
  };
  const auto& segments = program.segment();
  const bool split = std::any_of(segments.begin(), segments.end(),
                                 [&](const proto::Segment& s) { return named(s, 'W'); });
  std::vector<double> seconds(program.actor_size(), 0);
  for (const proto::Segment& segment : segments) {
    double& first = seconds[segment.actor(0)];
    if (named(segment, 'F')) first = times.forward / chunks;
    if (named(segment, 'B')) first = (times.activations + (split ? 0 : times.weights)) / chunks;
    if (named(segment, 'W')) first = times.weights / chunks;
  }
  for (const proto::Actor& actor : program.actor()) {
    const bool number =
        FindFacts(facts, actor.id()).bytes_moved() <= sizeof(double);  // a term of the norm
    if (actor.kernel() != "receive" || number) continue;
    seconds[actor.id()] = seconds[actor.exchange().partner()] = times.transfer;
  }
  return seconds;
}

SmallRun MakeRun(const std::string& schedule, int stages, int micro_batches) {
  SmallRun small;
  small.model.set_layers(stages);
  small.Set("mesh", "pipe=" + std::to_string(stages));
  small.recipe.set_schedule(schedule);
  small.recipe.set_batch(micro_batches);
  small.recipe.set_micro_batches(micro_batches);
  return small;
}

// Seconds a step among others.
double StepSeconds(const SmallRun& small, const StageTimes& times = {}) {
  const proto::Plan plan = CompileSmall(small);
  const proto::Program& program = plan.program(1);
  REQUIRE(program.name() == "train");
  const SimulatedRun run =
      Simulate(plan, "train",
               {.steps = 3,
                .actor_seconds = ActorTimes(program, FindFacts(plan, program),
                                            std::max(1, small.recipe.chunks()), times)})
          .value();
  return run.StepSeconds();
}

Utilization SimulatedUse(const std::string& schedule, int stages, int micro_batches,
                         int64_t steps) {
  const proto::Plan plan = CompileSmall(MakeRun(schedule, stages, micro_batches));
  for (const proto::Program& program : plan.program()) {
    if (program.name() != "train") continue;
    const SimulatedRun run =
        Simulate(plan, "train",
                 {.steps = steps,
                  .actor_seconds = ActorTimes(program, FindFacts(plan, program), /*chunks=*/1, {})})
            .value();
    return FindUtilization(run);
  }
  FAIL("no program train");
  return {};
}

TEST_CASE("gpipe and 1f1b wait (p - 1) / m of what they compute") {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (const int p : {2, 4, 8}) {
      for (const int m : {1, 4, 8, 24}) {
        for (const int64_t steps : {1, 3}) {
          INFO(schedule << " on " << p << " stages, " << m << " micro-batches, " << steps);
          const Utilization use = SimulatedUse(schedule, p, m, steps);
          const double waits = p - 1;
          CHECK(use.bubble_over_busy == Approx(waits / m).epsilon(1e-9));
          CHECK(use.bubble == Approx(waits / (m + waits)).epsilon(1e-9));
        }
      }
    }
  }
}

TEST_CASE("where weights lag the pipe is filled and drained once a round") {
  for (const int p : {2, 4}) {
    for (const int m : {p, 3 * p}) {
      INFO(p << " stages, " << m << " micro-batches");
      SmallRun small = MakeRun("2bw", p, m);
      small.model.set_tied(false);
      small.Set("--global_norm=false");
      const proto::Plan plan = CompileSmall(small);
      const auto steps = static_cast<double>(plan.program(1).steps_a_round());
      REQUIRE(steps >= 8);
      const double waits = 3.0 * (p - 1) / steps;
      CHECK(StepSeconds(small) == Approx(3.0 * m + waits).epsilon(1e-9));
    }
  }
}

TEST_CASE("interleaved over v chunks waits (p - 1) / (v m), for any m of at least p") {
  for (const int p : {2, 4}) {
    for (const int v : {2, 3}) {
      for (const int m : {p, p + 1, 2 * p, 3 * p + 1}) {
        INFO(v << " chunks on " << p << " stages, " << m << " micro-batches");
        SmallRun small = MakeRun("interleaved", p, m);
        small.model.set_layers(p * v);
        small.recipe.set_chunks(v);
        CHECK(StepSeconds(small) == Approx(3.0 * m + 3.0 * (p - 1) / v).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("zero bubble waits p - 1 - e forwards, down to none, where steps overlap") {
  for (const int p : {2, 4}) {
    for (int e = 0; e < p; ++e) {
      for (const int m : {2 * p, 3 * p + 1}) {
        INFO(p << " stages, " << m << " micro-batches, " << e << " extra");
        SmallRun small = MakeRun("zero_bubble", p, m);
        small.model.set_tied(false);
        small.recipe.set_extra_in_flight(e);
        CHECK(StepSeconds(small) == Approx(3.0 * m + (p - 1)).epsilon(1e-9));
        small.Set("--global_norm=false");
        CHECK(StepSeconds(small) == Approx(3.0 * m + (p - 1 - e)).epsilon(1e-9));
      }
    }
  }
}

// Zero Bubble (Qi et al., ICLR'24) profiled its stages and reports the bubbles that follow.
struct ProfiledRun {
  int stages, micro_batches;
  StageTimes times;  // milliseconds
  double one_f_one_b, interleaved, h1, h2;
};
constexpr ProfiledRun kProfiled[] = {
    {8, 24, {18.522, 18.086, 9.337, 0.601}, .2431, .1055, .1585, .1083},
    {16, 48, {11.347, 11.248, 8.132, 0.377}, .2552, .1104, .1397, .0672}};

TEST_CASE("with the times that Zero Bubble profiled, its bubbles come out") {
  for (const ProfiledRun& run : kProfiled) {
    INFO(run.stages << " stages");
    const auto bubble = [&](const char* schedule, int chunks, int extra) {
      SmallRun small = MakeRun(schedule, run.stages, run.micro_batches);
      small.model.set_tied(false);
      small.model.set_layers(run.stages * chunks);
      small.recipe.set_chunks(chunks);
      small.recipe.set_extra_in_flight(extra);
      small.Set("--global_norm=false");
      return 1 - run.micro_batches * run.times.work() / StepSeconds(small, run.times);
    };
    CHECK(bubble("1f1b", 1, 0) == Approx(run.one_f_one_b).margin(1e-4));
    // Megatron's transfers wait for each other in pairs, ours do not.
    CHECK(bubble("interleaved", 3, 0) == Approx(run.interleaved).margin(5e-3));
    CHECK(bubble("zero_bubble", 1, 0) == Approx(run.h1).margin(1e-4));
    CHECK(bubble("zero_bubble", 1, run.stages - 1) == Approx(run.h2).margin(1e-4));
  }
}

// One device a stage, slow at products, so that attention lengthens F and B.
proto::Cluster SlowDevices() {
  proto::Cluster cluster;
  proto::Device* device = cluster.mutable_device();
  device->set_kind(proto::Device::CUDA);
  device->set_peak_flops(1e9);
  device->set_memory_bandwidth(1e12);
  return cluster;
}

TEST_CASE("a message between workers of one machine takes the latency of its nearest level") {
  const proto::Plan plan = CompileSmall(MakeRun("1f1b", /*stages=*/2, /*micro_batches=*/4));
  const auto message_seconds = [&](proto::Device::Kind kind) {
    proto::Cluster cluster = SlowDevices();
    cluster.mutable_device()->set_kind(kind);
    proto::Level* level = cluster.add_level();
    level->set_size(2);
    level->set_bandwidth(1e9);
    level->set_latency(0.25);
    const auto run = SimulateOn(cluster, plan, "train", /*steps=*/1).value();
    return run.options.message_seconds;
  };
  CHECK(message_seconds(proto::Device::CPU) == 0.25);
  CHECK(message_seconds(proto::Device::CUDA) == 0);
}

TEST_CASE("on a cluster zero bubble suits what its stages take") {
  SmallRun small = MakeRun("zero_bubble", /*stages=*/4, /*micro_batches=*/16);
  small.model.set_hidden(16);
  small.model.set_sequence(64);
  small.model.set_tied(false);
  small.Set("--global_norm=false --extra_in_flight=12");
  const auto seconds = [&](const proto::Plan& plan) {
    const auto run = SimulateOn(SlowDevices(), plan, "train", /*steps=*/3).value();
    return run.StepSeconds();
  };
  const proto::Plan equal = CompileSmall(small);
  small.cluster = SlowDevices();
  const proto::Plan fitted = CompileSmall(small);
  CHECK(seconds(fitted) < .97 * seconds(equal));
}

}  // namespace
}  // namespace oneflow
