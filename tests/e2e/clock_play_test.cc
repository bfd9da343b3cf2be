// The simulator, which drives the runtime's actors, and the compiler's play by clock, which knows
// tokens alone, agree on when a step ends: on drawn programs with streams of copies and of what the
// host computes.

#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "compiler/schedule/timed_game.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/net/random_program.h"
#include "planning/simulate/simulate.h"

namespace oneflow {
namespace {

// Streams of kernels beside "compute" copy, or are the host's, in turn. Returns how many there are.
int ChangeKinds(std::mt19937* random, proto::Program* program) {
  int changed = 0;
  for (proto::Stream& stream : *program->mutable_stream()) {
    if (stream.kind() != proto::Stream::COMPUTE || stream.name() == "compute") continue;
    stream.set_kind((*random)() % 3 == 0 ? proto::Stream::HOST_COMPUTE : proto::Stream::COPY);
    ++changed;
  }
  return changed;
}

TEST_CASE("the simulator and the play by clock end a step at the same time, to the bit") {
  int played = 0, with_copies = 0, live = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    proto::Plan plan = RandomProgram(seed);
    const int changed = ChangeKinds(&random, plan.mutable_program(0));
    const auto net = MakePlanNet(plan, plan.program(0));
    if (!net.ok()) continue;
    std::vector<double> seconds;
    for (int a = 0; a < plan.program(0).actor_size(); ++a) {
      // Sums of these are exact. A send and its receive take equally long.
      seconds.push_back(static_cast<double>(1 + random() % 64) / 16);
    }
    for (const proto::Actor& actor : plan.program(0).actor()) {
      if (actor.kernel() == "send") seconds[actor.id()] = seconds[actor.exchange().partner()];
    }
    int64_t firings = 0, ended = 0;
    for (const NetStream& stream : net->streams) firings += stream.firings;
    const double by_clock = PlayByClock(
        *net, seconds, [](int, double) {}, [&](int, double) { ++ended; });
    const auto run = Simulate(plan, "train", {.steps = 1, .actor_seconds = seconds});
    ++played;
    INFO("seed " << seed);
    REQUIRE(run.ok() == (ended == firings));
    if (!run.ok()) continue;
    ++live;
    with_copies += changed > 0 ? 1 : 0;
    CHECK(run->seconds() == by_clock);
  }
  CHECK(played > 1500);
  CHECK(live > 500);
  CHECK(with_copies > 200);
}

}  // namespace
}  // namespace oneflow
