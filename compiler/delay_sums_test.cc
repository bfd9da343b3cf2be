// Compiled plans hold the full gradients of two blocks at most, and hold two: a reduction has the
// time of a block to end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

proto::Plan CompileSplit(const std::string& mesh, const std::string& schedule) {
  return Compile(BuildModel(MakeModel(
                     "family: 'gpt' layers: 8 heads: 2 hidden: 16 sequence: 64 vocab: 32")),
                 "gpt", OptionsFor(mesh, 32, 4, schedule, "--overlap --shard=weights"))
      .value();
}

// Of one program: what each actor reads from others, and which of them reduce gradients.
struct Actors {
  explicit Actors(const proto::Program& program) : program(program) {
    for (const proto::Actor& actor : program.actor()) {
      for (const int output : actor.output()) writer[output] = actor.id();
    }
    for (const proto::Stream& stream : program.stream()) {
      for (const proto::OrderRun& run : stream.order()) {
        for (const int segment : run.segment()) {
          if (stream.name() == "compute") compute.insert(segment);
          if (stream.name() != "reduction") continue;
          const auto& actors = program.segment(segment).actor();
          reduce.insert(actors.begin(), actors.end());
        }
      }
    }
  }

  // The actor whose full gradient `actor` reduces, or adds up once it is reduced; -1: neither.
  int FindGradient(int actor) const {
    for (;;) {
      const auto& inputs = program.actor(actor).input();
      const auto found = inputs.empty() ? writer.end() : writer.find(inputs[0].register_());
      if (found == writer.end()) return -1;
      if (!reduce.contains(found->second)) return reduce.contains(actor) ? found->second : -1;
      actor = found->second;
    }
  }

  const proto::Program& program;
  std::map<int, int> writer;      // by register
  std::set<int> reduce, compute;  // actors; segments
};

// The most blocks whose full gradients are held at once in a segment of compute, by its order.
size_t CountHeld(const proto::Plan& plan) {
  const proto::Program& program = *FindProgram(plan, "train");
  const proto::ProgramFacts& facts = FindFacts(plan, program);
  const Actors actors(program);
  std::set<int> gradients;
  for (const int actor : actors.reduce) gradients.insert(actors.FindGradient(actor));
  size_t most = 0;
  for (const int segment : actors.compute) {
    std::map<int, std::set<int>> held;  // by block, gradients
    for (const int actor : program.segment(segment).actor()) {
      const proto::ActorFacts& of_actor = FindFacts(facts, actor);
      if (!of_actor.has_block()) continue;
      if (gradients.contains(actor)) held[of_actor.block()].insert(actor);
      most = std::max(most, held.size());
      const int gradient = actors.FindGradient(actor);
      if (gradient < 0) continue;
      held[of_actor.block()].erase(gradient);
      if (held[of_actor.block()].empty()) held.erase(of_actor.block());
    }
  }
  return most;
}

TEST_CASE("full gradients of two blocks are held") {
  for (const std::string schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
    for (const std::string mesh : {"data=4", "pipe=2,data=2", "data=2,tensor=2"}) {
      INFO(mesh << " " << schedule);
      CHECK(CountHeld(CompileSplit(mesh, schedule)) == 2);
    }
  }
}

// Biases are all-reduced and sliced: these are reductions, too.
TEST_CASE("compute waits for no exchange of a gradient") {
  const proto::Plan plan = CompileSplit("data=4", "1f1b");
  for (const proto::Stream& stream : FindProgram(plan, "train")->stream()) {
    CHECK(stream.name() != "collective");
  }
}

}  // namespace
}  // namespace oneflow
