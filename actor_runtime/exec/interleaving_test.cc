// The worker's interleavings, drawn on one thread.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "actor_runtime/exec/interleaved_for_test.h"
#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

TEST_CASE("100 interleavings of each plan end drained, with the bits of threads") {
  for (const proto::Plan& plan :
       {ChainPlan(), TwoRanksPlan(), TwoStagesPlan(), HostMemoryPlan(), PrefetchPlan()}) {
    std::set<std::vector<float>> results;
    const auto run = [&](const RuntimeOptions& options) {
      const auto runtime = Runtime::Create(plan, options).value();
      for (const proto::Program& program : plan.program()) {
        const absl::Status status =
            runtime->Run(program.name(), {}, program.name() == "init" ? 1 : 3);
        INFO(status);
        REQUIRE(status.ok());
      }
      results.insert(Persistent(plan, *runtime, CountRanks(plan)));
    };
    run({.make_kernel = MakeTestKernel});
    for (uint64_t seed = 0; seed < 100; ++seed) {
      run(Interleaved(seed, {.make_kernel = MakeTestKernel}));
    }
    CHECK(results.size() == 1);
  }
}

TEST_CASE("a kernel's failure is returned, in any interleaving") {
  proto::Plan plan = ChainPlan();
  SetFailure(&plan, "train", "w", 1);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto runtime =
        Runtime::Create(plan, Interleaved(seed, {.make_kernel = MakeTestKernel})).value();
    const absl::Status status = runtime->Run("train", {}, 3);
    CHECK(std::string(status.message()) ==
          "program train, step 1, actor w at rank 0, firing 1: as asked");
  }
}

TEST_CASE("a plan that sticks says who waits for whom") {
  proto::Plan plan = TwoRanksPlan();
  // Update first, then compute: the update waits for a sum that nobody can begin.
  proto::Stream* compute = plan.mutable_program(0)->mutable_stream(0);
  compute->clear_order();
  proto::OrderRun* run = compute->add_order();
  run->add_segment(2);
  run->add_segment(0);
  run->set_repeat(3);
  const auto runtime =
      Runtime::Create(plan, Interleaved(7, {.make_kernel = MakeTestKernel, .prove = false}))
          .value();
  const absl::Status status = runtime->Run("train", {}, 1);
  CHECK(std::string(status.message()) ==
        "stuck; "
        "rank 0, compute: actor w at rank 0, firing 0, waits for fill 1 of actor g.sum at rank 0 "
        "(has 0; slot 0); "
        "rank 0, gradients: actor g.sum at rank 0, firing 0, waits for fill 1 of actor g at rank 0 "
        "(has 0; slot 0); "
        "rank 1, compute: actor w at rank 1, firing 0, waits for fill 1 of actor g.sum at rank 1 "
        "(has 0; slot 0); "
        "rank 1, gradients: actor g.sum at rank 1, firing 0, waits for fill 1 of actor g at rank 1 "
        "(has 0; slot 0); "
        "host, has done all its steps");
  // The proof refuses it before it runs.
  CHECK_FALSE(Runtime::Create(plan, {.make_kernel = MakeTestKernel}).ok());
}

}  // namespace
}  // namespace oneflow
