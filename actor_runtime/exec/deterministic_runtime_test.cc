#include "actor_runtime/exec/deterministic_runtime.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

std::unique_ptr<DeterministicRuntime> Make(const proto::Plan& plan, DeterministicOptions options) {
  absl::StatusOr<std::unique_ptr<DeterministicRuntime>> runtime =
      DeterministicRuntime::Create(plan, options);
  INFO(runtime.status());
  REQUIRE(runtime.ok());
  return *std::move(runtime);
}

TEST_CASE("200 interleavings of each plan end drained, with the same bits") {
  for (const proto::Plan& plan :
       {ChainPlan(), TwoRanksPlan(), TwoStagesPlan(), HostMemoryPlan(), PrefetchPlan()}) {
    std::set<std::vector<float>> results;
    for (const int launch_queue : {1, 3}) {
      for (uint64_t seed = 0; seed < 100; ++seed) {
        const auto runtime =
            Make(plan, {.make_kernel = MakeTestKernel, .launch_queue = launch_queue});
        for (const proto::Program& program : plan.program()) {
          const absl::Status status =
              runtime->Run(program.name(), {}, program.name() == "init" ? 1 : 3, seed);
          INFO(status);
          REQUIRE(status.ok());
        }
        results.insert(Persistent(plan, *runtime, CountRanks(plan)));
      }
    }
    CHECK(results.size() == 1);
  }
}

TEST_CASE("a dry run fires as often as a real one, without memory") {
  const auto dry = Make(TwoStagesPlan(), {});
  const auto real = Make(TwoStagesPlan(), {.make_kernel = MakeTestKernel});
  REQUIRE(dry->Run("train", {}, 2, 1).ok());
  REQUIRE(real->Run("train", {}, 2, 2).ok());
  CHECK(dry->firings() == real->firings());
  CHECK(dry->firings() == 2 * (4 + 4 + 4 * 4 + 8 + 1));
  CHECK(dry->ArenaBytes(0) == 0);
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
  const auto runtime = Make(plan, {.prove = false});
  const absl::Status status = runtime->Run("train", {}, 1, 7);
  CHECK(std::string(status.message()) ==
        "program train is stuck after 0 firings: "
        "actor w at rank 0, firing 0, waits for fill 1 of actor g.sum at rank 0 (has 0; slot 0); "
        "actor g.sum at rank 0, firing 0, waits for fill 1 of actor g at rank 0 (has 0; slot 0); "
        "actor w at rank 1, firing 0, waits for fill 1 of actor g.sum at rank 1 (has 0; slot 0); "
        "actor g.sum at rank 1, firing 0, waits for fill 1 of actor g at rank 1 (has 0; slot 0)");
  // The proof refuses it before it runs.
  CHECK_FALSE(DeterministicRuntime::Create(plan, {}).ok());
}

TEST_CASE("a kernel's failure is returned") {
  proto::Plan plan = ChainPlan();
  SetFailure(&plan, "train", "w", 1);
  const auto runtime = Make(plan, {.make_kernel = MakeTestKernel});
  CHECK(std::string(runtime->Run("train", {}, 3, 0).message()) == "actor w at rank 0: as asked");
}

}  // namespace
}  // namespace oneflow
