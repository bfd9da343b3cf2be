// Law: nothing is allocated between the first and the last step. The thread that called Run only
// waits.
#include <catch2/catch.hpp>

#include <atomic>

#include "actor_runtime/actor/line_vector.h"
#include "actor_runtime/device/counted_allocations.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

TEST_CASE("aligned memory counts") {
  const int64_t before = Allocations();
  const LineVector<int32_t> aligned(100);
  CHECK(Allocations() - before == 1);
}

TEST_CASE("no worker allocates between the first and the last firing") {
  for (const bool trace : {false, true}) {
    for (const proto::Plan& plan :
         {ChainPlan(), TwoRanksPlan(), TwoStagesPlan(), HostMemoryPlan(), PrefetchPlan()}) {
      constexpr int64_t kSteps = 300;
      const int64_t last = kSteps * plan.program(plan.program_size() - 1).micro_batches() - 1;
      std::atomic<int64_t> at_first{-1}, at_last{-2};
      RuntimeOptions options;
      options.trace = trace;
      options.trace_events_per_stream = 100;  // too few: a full buffer must not grow
      options.make_kernel = [&](const KernelSetup& setup) -> absl::StatusOr<Kernel> {
        absl::StatusOr<Kernel> kernel = MakeTestKernel(setup);
        if (!kernel.ok() || setup.kind != "count") return kernel;
        return Kernel([&, inner = *kernel, last](const KernelCall& call) {
          if (call.firing == 4) at_first = Allocations();
          if (call.firing == last) at_last = Allocations();
          return inner(call);
        });
      };
      auto runtime = Runtime::Create(plan, options).value();
      const absl::Status status = runtime->Run("train", {}, kSteps);
      REQUIRE(status.ok());
      CHECK(at_last - at_first == 0);
    }
  }
}

}  // namespace
}  // namespace oneflow
