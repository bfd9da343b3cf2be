// Plans whose gathers of weights run ahead of compute: on which streams they stand, what they hold,
// and that a credit one use too early or too late is found.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "compiler/schedule/timed_game.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

// Blocks take nearly all bytes of weights, and there are tokens enough to gather them.
proto::Model Model(int layers) {
  return MakeModel(absl::StrCat("family: 'gpt' layers: ", layers,
                                " heads: 2 hidden: 32 sequence: 256 vocab: 16"));
}

PlanRequest PrefetchOptions(const std::string& mesh, int ahead,
                            const std::string& schedule = "1f1b") {
  return OptionsFor(mesh, 32, 8, schedule,
                    absl::StrCat("--overlap --shard=weights --prefetch=", ahead));
}

proto::Plan Compiled(const proto::Model& model, const PlanRequest& options) {
  return Compile(BuildModel(model), "gpt", options).value();
}

// The gathers of a stage that run ahead, by segment, in order.
std::map<int, std::vector<int>> GathersAhead(const proto::Program& program, int stage) {
  std::map<int, std::vector<int>> gathers;
  for (const proto::Stream& stream : program.stream()) {
    if (stream.name() != "gather" || stream.stage() != stage) continue;
    for (const proto::OrderRun& run : stream.order()) {
      for (const int id : run.segment()) {
        const proto::Segment& segment = program.segment(id);
        gathers[id].assign(segment.actor().begin(), segment.actor().end());
      }
    }
  }
  return gathers;
}

const proto::Register& GetRegister(const proto::Plan& plan, int id) {
  return *FindRegister(plan, plan.program(kTrain), id);
}

// Bytes of what the largest use of a forward and the largest one of a backward gather, together.
int64_t UseBytes(const proto::Plan& plan, int stage) {
  const proto::Program& program = plan.program(kTrain);
  std::map<char, int64_t> most;  // by segment, "F" or "B"
  for (const auto& [segment, actors] : GathersAhead(program, stage)) {
    std::map<int, int64_t> bytes;  // by block
    for (const int actor : actors) {
      const int block = FindFacts(plan.facts().program(kTrain), actor).block();
      for (const int output : program.actor(actor).output()) {
        bytes[block] += GetRegister(plan, output).slot_bytes();
      }
    }
    int64_t& of_part = most[program.segment(segment).name()[0]];
    for (const auto& [block, sum] : bytes) of_part = std::max(of_part, sum);
  }
  return most['F'] + most['B'];
}

// The most bytes of gathered weights that a stage holds at once, where gathers take no time, so
// that each is as early as it may be.
int64_t MostHeld(const proto::Plan& plan, int stage) {
  const proto::Program& program = plan.program(kTrain);
  const PlanNet net = MakePlanNet(plan, program).value();
  std::vector<double> seconds(program.actor_size(), 1);
  std::map<int, int> readers, left;  // by register that is gathered: how many, and are still to be
  for (const auto& [segment, actors] : GathersAhead(program, stage)) {
    for (const int actor : actors) {
      seconds[actor] = 0;
      for (const int output : program.actor(actor).output()) readers[output] = 0;
    }
  }
  for (const proto::Actor& actor : program.actor()) {
    for (const proto::Input& input : actor.input()) {
      if (readers.contains(input.register_())) ++readers[input.register_()];
    }
  }
  int64_t held = 0, most = 0;
  const auto begin = [&](int actor, double) {
    for (const int output : program.actor(actor).output()) {
      if (!readers.contains(output)) continue;
      left[output] = readers[output];
      held += GetRegister(plan, output).slot_bytes();
    }
    most = std::max(most, held);
  };
  const auto end = [&](int actor, double) {
    for (const proto::Input& input : program.actor(actor).input()) {
      if (!readers.contains(input.register_()) || --left[input.register_()] > 0) continue;
      held -= GetRegister(plan, input.register_()).slot_bytes();
    }
  };
  PlayByClock(net, seconds, begin, end);
  CHECK(held == 0);
  return most;
}

int64_t ArenaBytes(const proto::Plan& plan, int stage = 0) {
  return plan.memory(stage).arena_bytes();
}

}  // namespace

TEST_CASE("gathers leave the compute stream where they may run ahead, one exchange a use") {
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
    INFO(schedule);
    const proto::Plan plan = Compiled(Model(8), PrefetchOptions("pipe=2,data=2", 1, schedule));
    CHECK(VerifyPlan(plan).ok());
    size_t gathers = 0;
    for (int stage = 0; stage < 2; ++stage) {
      for (const auto& [segment, actors] : GathersAhead(plan.program(kTrain), stage)) {
        gathers += actors.size();
      }
    }
    // Eight blocks, and before and behind them; the backward needs no table of positions.
    CHECK(gathers >= 18);
    CHECK(gathers <= 20);
    for (const proto::Stream& stream : plan.program(kTrain).stream()) {
      if (stream.name() != "compute") continue;
      for (const proto::OrderRun& run : stream.order()) {
        for (const int id : run.segment()) {
          for (const int actor : plan.program(kTrain).segment(id).actor()) {
            CHECK_FALSE(plan.program(kTrain).actor(actor).has_exchange());
          }
        }
      }
    }
  }
}

TEST_CASE("in bf16 parts are cast for each use, on the stream of gathers or just before them") {
  for (const int ahead : {0, 1, 2}) {
    PlanRequest options = PrefetchOptions("pipe=2,data=2", ahead);
    options.recipe.set_precision(proto::BF16);
    const proto::Plan plan = Compiled(Model(8), options);
    CHECK(VerifyPlan(plan).ok());
    const proto::Program& program = plan.program(kTrain);
    std::map<int, int> gathers;  // by register: that read it
    for (const proto::Actor& actor : program.actor()) {
      if (actor.kernel() != "all_gather") continue;
      for (const proto::Input& input : actor.input()) gathers[input.register_()] += 1;
    }
    const auto& persistent = plan.persistent();
    int casts = 0, on_gather = 0;
    for (const proto::Segment& segment : program.segment()) {
      for (const int id : segment.actor()) {
        const proto::Actor& actor = program.actor(id);
        const bool casts_weight =
            actor.kernel() == "cast" && actor.input(0).register_() < persistent.size();
        if (!casts_weight) continue;
        INFO(actor.name());
        CHECK(segment.name() != "P");
        CHECK(gathers[actor.output(0)] == 1);
        CHECK(GetRegister(plan, actor.output(0)).slots() == 1);
        ++casts;
      }
    }
    for (int stage = 0; stage < 2; ++stage) {
      for (const auto& [segment, actors] : GathersAhead(program, stage)) {
        on_gather += static_cast<int>(std::count_if(actors.begin(), actors.end(), [&](int actor) {
          return program.actor(actor).kernel() == "cast";
        }));
      }
    }
    // Four products a block, forward and backward, and the head.
    CHECK(casts >= 2 * (4 * 8 + 1));
    CHECK(on_gather == (ahead > 0 ? casts : 0));
  }
}

TEST_CASE("gathered weights take the bytes of 2 (d + 1) uses") {
  // Six blocks on the stage in the middle, which has nothing else; of two chunks, three each.
  for (const std::string schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
    PlanRequest options = PrefetchOptions("pipe=3,data=2", 0, schedule);
    options.recipe.set_batch(36), options.recipe.set_micro_batches(9);
    const int64_t at_use = ArenaBytes(Compiled(Model(18), options), 1);
    for (const int ahead : {1, 2}) {
      options.recipe.set_prefetch(ahead);
      const proto::Plan plan = Compiled(Model(18), options);
      // A chunk of three has a ring of two.
      const int uses = schedule == "interleaved" ? 2 : ahead + 1;
      const auto most = static_cast<double>(uses * UseBytes(plan, 1));
      const double held = static_cast<double>(MostHeld(plan, 1)) / most;
      const double more = static_cast<double>(ArenaBytes(plan, 1) - at_use) / most;
      INFO(schedule << ", " << ahead << " ahead: of " << most << " bytes " << held
                    << " held, the arena is larger by " << more << " of them");
      CHECK(held <= 1.02);
      CHECK(held >= 0.95);
      CHECK(more <= 1.05);
    }
  }
}

TEST_CASE("where nothing overlaps, nothing runs ahead") {
  PlanRequest options = PrefetchOptions("data=2", 2);
  options.recipe.set_overlap(false);
  CHECK(GathersAhead(Compiled(Model(2), options).program(kTrain), 0).empty());
}

namespace {

// The gathers of a segment of stage 0 whose credits come from the same micro-batch, each with the
// actor that fills its credit.
struct Credit {
  int gather = 0, writer = 0, reg = 0;
};
std::vector<Credit> Credits(const proto::Program& program) {
  std::vector<Credit> credits;
  for (const auto& [segment, gathers] : GathersAhead(program, 0)) {
    for (const int gather : gathers) {
      const proto::Input& last = *program.actor(gather).input().rbegin();
      if (last.initial_fills() > 0) continue;
      for (const proto::Actor& actor : program.actor()) {
        if (std::find(actor.output().begin(), actor.output().end(), last.register_()) ==
            actor.output().end()) {
          continue;
        }
        credits.push_back({gather, actor.id(), last.register_()});
      }
    }
    if (credits.size() >= 3) return credits;
    credits.clear();
  }
  return credits;
}

// `writer` fills the register in the place of the actor that does.
proto::Plan WithWriter(proto::Plan plan, const Credit& credit, int writer) {
  proto::Program& program = *plan.mutable_program(kTrain);
  auto* outputs = program.mutable_actor(credit.writer)->mutable_output();
  outputs->erase(std::find(outputs->begin(), outputs->end(), credit.reg));
  program.mutable_actor(writer)->add_output(credit.reg);
  return plan;
}

}  // namespace

TEST_CASE("a credit one use too late deadlocks, and one too early is no longer safe") {
  const proto::Plan plan = Compiled(Model(8), PrefetchOptions("data=2", 1));
  const std::vector<Credit> credits = Credits(plan.program(kTrain));
  REQUIRE(credits.size() >= 3);
  const auto verdict = [](const proto::Plan& edited) {
    const auto net = MakePlanNet(edited, edited.program(kTrain)).value();
    if (const absl::Status live = VerifyLiveness(net); !live.ok()) return live;
    return VerifyMemory(net);
  };
  CHECK(verdict(plan).ok());
  int late = 0, unsafe = 0;
  for (size_t k = 0; k + 2 < credits.size(); ++k) {
    // Of the use itself: it waits for what it is gathered for.
    const absl::Status stuck = verdict(WithWriter(plan, credits[k], credits[k + 2].writer));
    late += stuck.message().find("can stop for ever") != std::string::npos;
    // Of the use before the one that gives its place.
    const absl::Status early = verdict(WithWriter(plan, credits[k + 1], credits[k].writer));
    unsafe += !early.ok() && early.message().find("can stop for ever") == std::string::npos;
  }
  CHECK(late == static_cast<int>(credits.size()) - 2);
  // Unless nothing else is at the address of what it takes early.
  CHECK(unsafe >= static_cast<int>(credits.size()) - 3);
}

}  // namespace oneflow
