// Where the fills of compiled plans lie, against brute force (oneflow_core/net/byte_game.h): in no
// legal order may two live fills overlap. memory_fuzz_test does so with programs that are drawn.
#include <catch2/catch.hpp>
#include <random>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/net/byte_game.h"
#include "oneflow_core/net/random_program.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

struct Case {
  const char *mesh, *schedule;
  int micro_batches;
  int chunks = 0, layers = 4;
};
// Among them micro-batches that are no multiple of those in flight, and no more than stages; and
// chunks on a ring (compiler/memory/buffer_rings.h).
constexpr Case kCases[] = {{"pipe=4", "1f1b", 7},
                           {"pipe=3,data=2", "1f1b", 8},
                           {"pipe=2,tensor=2", "1f1b", 5},
                           {"pipe=2", "interleaved", 6},
                           {"pipe=3", "zero_bubble", 7},
                           {"pipe=2", "gpipe", 3},
                           {"pipe=4", "1f1b", 4},
                           {"pipe=3,data=2", "1f1b", 2},
                           {"pipe=4", "interleaved", 18, 3, 12}};

proto::Plan TrainPlan(const Case& c) {
  PlanRequest options = OptionsFor(c.mesh, 4 * c.micro_batches, c.micro_batches, c.schedule);
  if (c.chunks > 0) options.recipe.set_chunks(c.chunks);
  return Compile(BuildModel(TinyGpt(c.layers)), "gpt", options).value();
}

// On rings: neither in the frame of their own micro-batch nor in one next to it.
int OnRings(const proto::Plan& plan) {
  int found = 0;
  for (const proto::Register& r : plan.program(kTrain).register_()) {
    found += r.first_buffer() > 1 && r.first_buffer() + 1 < r.buffers();
  }
  return found;
}

int Framed(const proto::Plan& plan) {
  int framed = 0;
  for (const proto::Register& r : plan.program(kTrain).register_())
    framed += HasInterleavedBuffers(r);
  return framed;
}

}  // namespace

TEST_CASE("no two live fills of a compiled plan overlap, whatever the order") {
  int framed = 0, on_rings = 0, workspaces = 0;
  for (const Case& c : kCases) {
    const proto::Plan plan = TrainPlan(c);
    const auto net = MakePlanNet(plan, plan.program(kTrain));
    INFO(c.mesh << " " << c.schedule);
    CHECK(FirstOverlap(*net, {.games = 20}) == "");
    framed += Framed(plan);
    on_rings += OnRings(plan);
    for (const NetRegister& r : net->registers) workspaces += r.workspace;
  }
  CHECK(framed > 50);
  CHECK(on_rings > 20);
  CHECK(workspaces > 50);
}

TEST_CASE("what the proof lets pass has no two live fills that overlap") {
  std::mt19937 random(11);
  int safe = 0, refused = 0;
  for (const Case& c : kCases) {
    const proto::Plan plan = TrainPlan(c);
    for (int i = 0; i < 60; ++i) {
      proto::Plan mutant = plan;
      for (int edits = i % 3; edits >= 0; --edits)
        MoveRegister(random, mutant.mutable_program(kTrain));
      const auto net = MakePlanNet(mutant, mutant.program(kTrain));
      if (!net.ok() || !VerifyProgramTypes(*net).ok() || !VerifyLiveness(*net).ok()) continue;
      if (!VerifyMemory(*net).ok()) {
        ++refused;
        continue;
      }
      ++safe;
      INFO(c.mesh << " " << c.schedule << " mutant " << i);
      CHECK(FirstOverlap(*net, {.games = 5}) == "");
    }
  }
  CHECK(safe > 20);
  CHECK(refused > 30);
}

}  // namespace oneflow
