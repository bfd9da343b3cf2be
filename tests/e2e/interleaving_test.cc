// Compiled plans under seeded interleavings: no stuck state, every slot returned, and the same bits
// as the threaded runtime. 1,000 interleavings in all with ONEFLOW_TEST_FULL, else a sample.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "actor_runtime/exec/interleaved_for_test.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

struct Case {
  const char* mesh;
  const char* schedule;
  proto::DataType precision = proto::F32;
  bool overlap = false;
  const char* shard = "none";
  int64_t batch = 8;
};
const Case kCases[] = {{"", "1f1b"},
                       {"data=2,tensor=2", "1f1b"},
                       {"pipe=4", "1f1b"},
                       {"pipe=4,data=2", "gpipe"},
                       {"pipe=2,data=2,tensor=2", "1f1b"},
                       {"pipe=2,data=2", "interleaved"},
                       {"pipe=4", "zero_bubble"},
                       {"pipe=2,data=2", "1f1b", proto::BF16},
                       {"data=2,tensor=2", "1f1b", proto::F32, true, "states"},
                       {"pipe=2,data=3", "interleaved", proto::BF16, true, "states", 12},
                       {"pipe=2,data=2", "zero_bubble", proto::F32, true, "weights"}};

uint64_t Seeds() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr ? 200 : 8; }

std::string CaseName(const Case& c) {
  return std::string(c.mesh) + " " + c.schedule + (c.overlap ? " overlap" : "") + " shard " +
         c.shard;
}

SmallRun MakeRun(const Case& c) {
  SmallRun run;
  run.Set("mesh", c.mesh);
  run.recipe.set_schedule(c.schedule);
  run.recipe.set_precision(c.precision);
  run.recipe.set_overlap(c.overlap);
  run.Set("shard", c.shard);
  run.recipe.set_batch(c.batch);
  return run;
}

TEST_CASE("No interleaving sticks") {
  for (const Case& c : kCases) {
    const proto::Plan plan = CompileSmall(MakeRun(c));
    const auto runtime =
        Runtime::Create(plan, Interleaved(1, {.make_kernel = MakeIdleKernel})).value();
    for (const proto::Program& program : plan.program()) {
      for (uint64_t i = 0; i < Seeds(); ++i) {
        INFO(CaseName(c) << " " << program.name() << " run " << i);
        const absl::Status status = runtime->Run(program.name(), {}, /*steps=*/2);
        INFO(status.ToString());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE("Interleavings compute the bits of the threaded runtime") {
  for (const Case& c : kCases) {
    SmallRun run = MakeRun(c);
    run.steps = 3;
    const SmallResult threaded = Train(run);
    for (uint64_t seed = 0; seed < 2; ++seed) {
      INFO(CaseName(c) << " seed " << seed);
      run.interleaving = seed;
      CHECK(Train(run) == threaded);
    }
  }
}

}  // namespace
}  // namespace oneflow
