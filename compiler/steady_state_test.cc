// Closed forms against full unrolling: skipping cycles changes no verdict, and planning with few
// micro-batches gives what planning with all gives.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/net/random_program.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/skip_game.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// With gathers of weights `ahead` of compute, if at least one. `like`: a plan whose layouts it
// gets.
proto::Plan TrainPlan(const std::string& mesh, int micro_batches, const std::string& schedule,
                      int ahead = 0, const proto::Plan* like = nullptr) {
  const std::string flags =
      ahead == 0 ? ""
                 : absl::StrCat("--overlap --shard=weights --state_layouts --prefetch=", ahead);
  return Compile(like != nullptr ? like->graph() : BuildModel(TinyGpt(4)), "gpt",
                 OptionsFor(mesh, 4 * micro_batches, micro_batches, schedule, flags))
      .value();
}

// Makes the plan a little different: dead, unsafe or as good as before.
void Mutate(std::mt19937& random, proto::Program* program) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  proto::Register& r = *program->mutable_register_(below(program->register__size()));
  switch (below(5)) {
    case 0: return r.set_slots(std::max(1, r.slots() + (below(2) == 0 ? -1 : 1)));
    case 1: return r.set_offset(program->register_(below(program->register__size())).offset());
    case 2: {  // a micro-batch more or less before the steady state
      proto::Stream& stream = *program->mutable_stream(0);
      if (stream.order_size() < 3) return;
      const int change = below(2) == 0 ? -1 : 1;
      for (int run : {0, 1, 2}) {
        const int by = run == 1 ? -change : change;
        stream.mutable_order(run)->set_repeat(stream.order(run).repeat() + by);
      }
      return;
    }
    case 3: return MoveExchange(random, program);
    default: {
      proto::Actor& actor = *program->mutable_actor(below(program->actor_size()));
      if (actor.input_size() == 0) return;
      actor.mutable_input(below(actor.input_size()))->set_initial_fills(below(3));
    }
  }
}

}  // namespace

TEST_CASE("skipping cycles changes no verdict") {
  std::mt19937 random(7);
  int good = 0, dead = 0, unsafe = 0;
  for (const auto& [mesh, schedule, ahead] : {std::tuple("pipe=3,data=2,tensor=2", "1f1b", 0),
                                              {"pipe=2,data=2", "gpipe", 0},
                                              {"pipe=2", "interleaved", 0},
                                              {"pipe=3", "zero_bubble", 0},
                                              {"pipe=2", "2bw", 0},
                                              {"", "1f1b", 0},
                                              {"pipe=2,data=2", "1f1b", 1}}) {
    const proto::Plan plan = TrainPlan(mesh, 24, schedule, ahead);
    for (int i = 0; i < 60; ++i) {
      proto::Plan mutant = plan;
      for (int edits = i % 3; edits >= 0; --edits) Mutate(random, mutant.mutable_program(kTrain));
      const auto net = MakePlanNet(mutant, mutant.program(kTrain));
      if (!net.ok() || !VerifyProgramTypes(*net).ok()) continue;
      const absl::Status live = VerifyLiveness(*net);
      CHECK(live.code() == VerifyLiveness(*net, Play::kEveryFiring).code());
      if (!live.ok()) {
        ++dead;
        continue;
      }
      const absl::Status safe = VerifyMemory(*net);
      INFO(mesh << ", mutant " << i << ": " << safe.ToString());
      CHECK(safe.code() == VerifyMemory(*net, Play::kEveryFiring).code());
      ++(safe.ok() ? good : unsafe);
    }
  }
  INFO("good " << good << ", dead " << dead << ", unsafe " << unsafe);
  CHECK(good > 20);
  CHECK(dead > 20);
  CHECK(unsafe > 20);
}

TEST_CASE("most of a step is skipped, and no more is promised than if it had been played") {
  for (const auto& [mesh, schedule, turned] : {std::tuple("pipe=3,data=2,tensor=2", "1f1b", 2),
                                               {"pipe=2", "interleaved", 2},
                                               {"pipe=3", "zero_bubble", 2},
                                               {"", "1f1b", 0}}) {
    INFO(mesh << " " << schedule);
    const proto::Plan plan = TrainPlan(mesh, 64, schedule);
    SkipCounts counts;
    CHECK(FirstBadSkip(*MakePlanNet(plan, plan.program(kTrain)), &counts) == "");
    CHECK(counts.skips == 2);  // one a step
    CHECK(counts.frames_turned == turned);
    CHECK(counts.rounds < 30);  // of 128
  }
}

TEST_CASE("a plan planned with few micro-batches has the slots and bytes of one planned with all") {
  struct Case {
    const char* mesh;
    const char* schedule;
    int few;  // so many are planned with all of them
    int ahead = 0;
  };
  for (const auto& [mesh, schedule, all, ahead] :
       {Case{"pipe=3,data=2", "1f1b", 7}, Case{"tensor=2", "1f1b", 5},
        Case{"pipe=2", "interleaved", 14}, Case{"pipe=3", "zero_bubble", 7},
        Case{"pipe=3", "2bw", 4}, Case{"pipe=3,data=2", "pipedream", 4},
        Case{"pipe=3,data=2", "1f1b", 8, 1}, Case{"data=2", "1f1b", 5, 1},
        Case{"pipe=2,data=2", "interleaved", 14, 1}, Case{"pipe=3,data=2", "zero_bubble", 8, 2}}) {
    INFO(mesh << " " << schedule);
    const proto::Plan many = TrainPlan(mesh, 40, schedule, ahead);
    // More micro-batches may make other layouts cheaper.
    const proto::Plan few = TrainPlan(mesh, all, schedule, ahead, ahead > 0 ? &many : nullptr);
    const proto::Program &a = few.program(kTrain), &b = many.program(kTrain);
    REQUIRE(a.register__size() == b.register__size());
    for (int i = 0; i < a.register__size(); ++i) {
      INFO(a.register_(i).name());
      CHECK(a.register_(i).slots() == b.register_(i).slots());
      CHECK(a.register_(i).offset() == b.register_(i).offset());
    }
    CHECK(b.micro_batches() == 40);
    for (int s = 0; s < few.memory_size(); ++s) {
      CHECK(few.memory(s).arena_bytes() == many.memory(s).arena_bytes());
      CHECK(LowerBoundBytes(few, s) == LowerBoundBytes(many, s));
    }
  }
}

TEST_CASE("orders of issue do not grow with micro-batches") {
  const auto written = [](const char* mesh, int micro_batches, const char* schedule, int ahead) {
    const proto::Plan plan = TrainPlan(mesh, micro_batches, schedule, ahead);
    CHECK(plan.program(kTrain).issue_size() == 2);
    int actors = 0;
    for (const proto::IssueOrder& order : plan.program(kTrain).issue()) {
      for (const proto::ActorRun& run : order.run()) actors += run.actor_size();
    }
    return actors;
  };
  for (const char* schedule : {"1f1b", "zero_bubble", "interleaved", "2bw"}) {
    for (const char* mesh : {"pipe=2", "pipe=2,data=2", "pipe=2,tensor=2"}) {
      INFO(mesh << " " << schedule);
      CHECK(written(mesh, 1200, schedule, 0) == written(mesh, 120, schedule, 0));
    }
    CHECK(written("pipe=2,data=2", 1200, schedule, 1) ==
          written("pipe=2,data=2", 120, schedule, 1));
  }
}

TEST_CASE("slots that grow with the micro-batches are counted with all of them") {
  const proto::Plan plan = TrainPlan("pipe=2", 40, "gpipe");
  int most = 0;
  for (const proto::Register& r : plan.program(kTrain).register_())
    most = std::max(most, r.slots());
  CHECK(most >= 40);
}

}  // namespace oneflow
