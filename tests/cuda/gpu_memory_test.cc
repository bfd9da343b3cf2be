// Reports of the memory of GPUs, and plans that are refused for it.
#include "tools/oneflow/cli/gpu_memory.h"

#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/print/plan_text.h"
#include "planning/measure/calibrate_gpus.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

proto::Plan MakePlan(const char* mesh) {
  SmallRun run;
  run.Set("mesh", mesh);
  run.Set("--device=cuda");
  return CompileSmall(run);
}

DeviceBackend Opened(int ranks) {
  auto backend = cuda::OpenBackend({.ranks = ranks, .logical_devices = true});
  REQUIRE(backend.ok());
  return *std::move(backend);
}

TEST_CASE("a plan that takes all that is free is taken, one of a byte more is refused") {
  const proto::Plan plan = MakePlan("");
  const int64_t planned = plan.memory(0).arena_bytes();
  emulated::Reset({.devices = 1, .memory_bytes = static_cast<size_t>(planned)});
  CHECK(GpuMemory::Check(plan, Opened(1)).ok());
  emulated::Reset({.devices = 1, .memory_bytes = static_cast<size_t>(planned) - 1});
  const absl::Status refused = GpuMemory::Check(plan, Opened(1)).status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(refused.message()),
             Contains("GPU 0, Emulated GPU: the plan takes " + BytesText(planned) +
                      " there, and of " + BytesText(planned - 1) + " only " +
                      BytesText(planned - 1) + " are free; compile for more GPUs"));
  CHECK(emulated::AllocatedBytes(0) == 0);
}

TEST_CASE("ranks that share a GPU are added up, each by its stage") {
  const proto::Plan plan = MakePlan("pipe=2,data=2");
  const int64_t first = plan.memory(0).arena_bytes(), second = plan.memory(1).arena_bytes();
  REQUIRE(first != second);
  // Ranks 0 and 2, of both stages, have GPU 0.
  emulated::Reset({.devices = 2, .memory_bytes = static_cast<size_t>(first + second)});
  CHECK(GpuMemory::Check(plan, Opened(4)).ok());
  emulated::Reset({.devices = 2, .memory_bytes = static_cast<size_t>(first + second - 1)});
  CHECK_FALSE(GpuMemory::Check(plan, Opened(4)).ok());
  emulated::Reset({.devices = 3, .memory_bytes = static_cast<size_t>(first + second)});
  CHECK(GpuMemory::Check(plan, Opened(4)).ok());
}

TEST_CASE("calibration reserves the bytes that are not free after it measured") {
  constexpr int64_t kMemory = int64_t{16} << 20, kTaken = 12345;
  emulated::Reset({.devices = 1, .memory_bytes = kMemory});
  DeviceBackend backend = Opened(1);
  backend.facts_of = [real = backend.facts_of](int rank) {
    absl::StatusOr<DeviceFacts> facts = real(rank);
    if (facts.ok()) facts->free_bytes -= kTaken;
    return facts;
  };
  const absl::StatusOr<proto::Cluster> cluster = CalibrateGpus(backend, {.seconds = 0.01});
  REQUIRE(cluster.ok());
  CHECK(cluster->device().memory_bytes() == kMemory);
  CHECK(cluster->device().reserve_bytes() == kTaken);
}

TEST_CASE("the reported parts add up to the memory of the GPU") {
  const proto::Plan plan = MakePlan("pipe=2");
  constexpr int64_t kTotal = int64_t{1} << 30;
  constexpr int64_t kOthers = 1000, kLibraries = 3000;
  emulated::Reset({.devices = 2, .memory_bytes = static_cast<size_t>(kTotal)});
  void* others = nullptr;
  REQUIRE(cudaMalloc(&others, kOthers) == cudaSuccess);
  const DeviceBackend backend = Opened(2);
  const auto memory = GpuMemory::Check(plan, backend);
  REQUIRE(memory.ok());
  const auto runtime = Runtime::Create(plan, {.backend = &backend});
  REQUIRE(runtime.ok());
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  void* libraries = nullptr;
  REQUIRE(cudaMalloc(&libraries, kLibraries) == cudaSuccess);
  const absl::StatusOr<std::string> text = memory->Text(backend);
  REQUIRE(text.ok());
  const int64_t planned = plan.memory(0).arena_bytes();
  CHECK_THAT(*text,
             Contains("GPU 0, Emulated GPU: the plan takes " + BytesText(planned) +
                      "; libraries and NCCL " + BytesText(kLibraries) +
                      "; the context and other processes " + BytesText(kOthers) + "; free are " +
                      BytesText(kTotal - planned - kOthers - kLibraries) + "\n"));
  CHECK_THAT(*text, Contains("GPU 1, Emulated GPU: the plan takes " +
                             BytesText(plan.memory(1).arena_bytes()) + "; "));
}

}  // namespace
}  // namespace oneflow
