// Law: nothing is allocated between the first and the last step. Counts every operator new of the
// process; the thread that called Run only waits.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

#include "actor_runtime/actor/line_vector.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/test_plans.h"

namespace {
std::atomic<int64_t> allocations{0};
}

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  std::abort();
}
void* operator new(size_t size, std::align_val_t align) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto a = static_cast<size_t>(align);
  if (void* memory = std::aligned_alloc(a, (size + a - 1) / a * a)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace oneflow {
namespace {

TEST_CASE("aligned memory counts") {
  const int64_t before = allocations;
  const LineVector<int32_t> aligned(100);
  CHECK(allocations - before == 1);
}

TEST_CASE("no worker allocates between the first and the last firing") {
  for (const bool trace : {false, true}) {
    for (const proto::Plan& plan : {ChainPlan(), TwoRanksPlan(), TwoStagesPlan()}) {
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
          if (call.firing == 4) at_first = allocations.load();
          if (call.firing == last) at_last = allocations.load();
          return inner(call);
        });
      };
      auto runtime = Runtime::Create(plan, options);
      REQUIRE(runtime.ok());
      const absl::Status status = (*runtime)->Run("train", {}, kSteps);
      REQUIRE(status.ok());
      CHECK(at_last - at_first == 0);
    }
  }
}

}  // namespace
}  // namespace oneflow
