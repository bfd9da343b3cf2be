// Kernels that the host's processors run for a GPU, on the host's memory, while the GPU computes.
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/exec/test_plans.h"
#include "tests/cuda/host_backend.h"

namespace oneflow {
namespace {

// The plan with memory of the host, for GPUs: a copy is of the device, and weights are initialised
// at the host and copied.
proto::Plan PlanOfGpus() {
  proto::Plan plan = HostMemoryPlan();
  plan.set_device_kind(proto::CUDA);
  plan.set_launch_queue(8);
  proto::Program& init = *plan.mutable_program(0);
  init.mutable_actor()->DeleteSubrange(0, 1);
  init.mutable_actor(0)->set_id(0);
  init.mutable_segment(0)->clear_actor();
  init.mutable_segment(0)->add_actor(0);
  return plan;
}

std::unique_ptr<Runtime> Make(const proto::Plan& plan, const DeviceBackend& backend,
                              RuntimeOptions options = {}) {
  options.make_kernel = MakeTestKernel;
  options.backend = &backend;
  absl::StatusOr<std::unique_ptr<Runtime>> runtime = Runtime::Create(plan, options);
  INFO(runtime.status());
  REQUIRE(runtime.ok());
  return *std::move(runtime);
}

// The masters of both ranks, which the host holds, after `steps` steps.
std::vector<float> Masters(Runtime& runtime, int64_t steps) {
  for (const char* program : {"init", "restore"}) {
    const absl::Status status = runtime.Run(program, {}, 1);
    INFO(status);
    REQUIRE(status.ok());
  }
  const absl::Status status = runtime.Run("train", {}, steps);
  INFO(status);
  REQUIRE(status.ok());
  std::vector<float> values;
  for (const int rank : {0, 1}) {
    const auto* data = reinterpret_cast<const float*>(runtime.PersistentBytes(rank, 1).data());
    values.insert(values.end(), data, data + kElements);
  }
  return values;
}

TEST_CASE("the host updates the weights of a GPU, with the bits of the CPU") {
  const proto::Plan on_cpu = HostMemoryPlan();
  absl::StatusOr<std::unique_ptr<Runtime>> cpu =
      Runtime::Create(on_cpu, {.make_kernel = MakeTestKernel});
  REQUIRE(cpu.ok());
  const std::vector<float> expected = Masters(**cpu, 9);
  CHECK(expected[0] == ChainResult(9));
  for (const auto model : emulated::kModels) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      emulated::Reset({.devices = 2, .model = model, .seed = seed});
      const DeviceBackend backend = HostBackend(2, MakeTestKernel);
      const auto runtime = Make(PlanOfGpus(), backend, {.threads = 2, .trace = seed == 1});
      CHECK(Masters(*runtime, 9) == expected);
      CHECK(runtime->HostArenaBytes(1) == 320);
    }
  }
}

TEST_CASE("a failure at the host ends the run of the GPUs with its name; the next run works") {
  emulated::Reset({.devices = 2});
  const DeviceBackend backend = HostBackend(2, MakeTestKernel);
  proto::Plan plan = PlanOfGpus();
  SetFailure(&plan, "train", "m", 3);
  const auto runtime = Make(plan, backend);
  const std::vector<float> three = Masters(*runtime, 3);
  const absl::Status status = runtime->Run("train", {}, 5);
  CHECK_THAT(std::string(status.message()),
             Catch::Contains("actor m at rank") && Catch::Contains("firing 3: as asked"));
  CHECK(Masters(*runtime, 3) == three);
}

}  // namespace
}  // namespace oneflow
