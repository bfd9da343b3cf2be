// Gathers of weights that run ahead of compute change no bit, whatever the mesh and the schedule.
#include <set>
#include <string>

#include "catch2/catch.hpp"
#include "oneflow_core/plan/plan_lookup.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

SmallRun MakeRun(const std::string& mesh, int ahead) {
  SmallRun run;
  run.Set("mesh", mesh);
  run.steps = 4;
  run.Set("--overlap --shard=weights");
  run.recipe.set_prefetch(ahead);
  return run;
}

// Exchanges on the streams of gathers, those of each stage once.
int GathersAhead(const proto::Plan& plan) {
  const proto::Program& train = *FindProgram(plan, "train");
  std::set<int> actors;
  for (const proto::Stream& stream : train.stream()) {
    if (stream.name() != "gather") continue;
    for (const proto::OrderRun& run : stream.order()) {
      for (const int segment : run.segment()) {
        actors.insert(train.segment(segment).actor().begin(), train.segment(segment).actor().end());
      }
    }
  }
  return static_cast<int>(actors.size());
}

void CheckBits(SmallRun run) {
  INFO(run.Get("mesh") << " " << run.recipe.schedule() << " " << run.Get("recompute"));
  run.Set("--prefetch=0");
  proto::Plan plan = CompileSmall(run);
  CHECK(GathersAhead(plan) == 0);
  const SmallResult at_use = Train(run, plan);
  for (const int ahead : {1, 2}) {
    INFO(ahead << " ahead");
    run.recipe.set_prefetch(ahead);
    plan = CompileSmall(run);
    CHECK(GathersAhead(plan) >= 8);  // four blocks, forward and backward
    CHECK(Train(run, plan) == at_use);
  }
}

}  // namespace

TEST_CASE("gathers that run ahead change no bit, whatever the mesh") {
  for (const char* mesh : {"data=2", "data=4", "data=2,tensor=2"}) {
    SmallRun run = MakeRun(mesh, 0);
    run.Set("--batch=16");
    CheckBits(run);
  }
}

TEST_CASE("nor whatever the schedule") {
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble", "2bw"}) {
    SmallRun run = MakeRun("pipe=2,data=2", 0);
    run.recipe.set_schedule(schedule);
    run.recipe.set_global_norm(run.recipe.schedule() != "2bw");
    CheckBits(run);
  }
}

TEST_CASE("nor with bf16, nor where the backward computes blocks again") {
  for (const char* recompute : {"full", "selective", "full,gather"}) {
    SmallRun run = MakeRun("pipe=2,data=2", 0);
    run.Set("recompute", recompute);
    run.Set("--precision=bf16");
    CheckBits(run);
    // What is gathered over data is sliced over tensor: a slice gives the credit.
    run.Set("--mesh=data=2,tensor=2 --sequence_parallel");
    CheckBits(run);
  }
}

TEST_CASE("every program runs with gathers ahead") {
  for (const char* purpose : {"training", "generation"}) {
    SmallRun run = MakeRun("data=2", 2);
    run.Set("purpose", purpose);
    CHECK_NOTHROW(RunEveryProgram(run));
  }
}

}  // namespace oneflow
