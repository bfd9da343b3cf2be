// A kernel fails while it runs: the actor that the error names, and the state that later runs find.
#include <memory>
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/emulated/launch.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

constexpr char kActor[] = "h.1.mlp.fc";

// Some lanes wait for others that do not come: the device is lost when it runs.
void BreakDevice(void* stream) {
  REQUIRE(
      emulated::Launch("broken", {.blocks = 1, .block = 32}, static_cast<cudaStream_t>(stream), [] {
        if (threadIdx.x != 7) __syncwarp();
      }) == cudaSuccess);
}

DeviceBackend OverNccl(int gpus) {
  DeviceBackend backend = HostBackend(gpus);
  const absl::StatusOr<cuda::Nccl> nccl = cuda::OpenNccl({});
  REQUIRE(nccl.status() == absl::OkStatus());
  cuda::ExchangeOverNccl(*nccl, cuda::IdsInMemory(), &backend);
  return backend;
}

// `backend`, but that firing `firing` of kActor goes wrong.
DeviceBackend Broken(DeviceBackend backend, int firing) {
  backend.make_kernel = [make = backend.make_kernel, firing](
                            Device& device, const KernelSetup& setup) -> absl::StatusOr<Kernel> {
    absl::StatusOr<Kernel> kernel = make(device, setup);
    if (!kernel.ok() || setup.name != kActor) return kernel;
    auto calls = std::make_shared<int>(0);
    return Kernel([firing, calls, kernel = *std::move(kernel)](const KernelCall& call) {
      if ((*calls)++ == firing) BreakDevice(call.stream);
      return kernel(call);
    });
  };
  return backend;
}

SmallRun Small(const char* mesh, const DeviceBackend* backend) {
  SmallRun run;
  run.Set("mesh", mesh);
  run.steps = 2;
  run.Set("--device=cuda");
  run.backend = backend;
  return run;
}

std::string RunFailure(const SmallRun& run, const proto::Plan& plan) {
  try {
    Train(run, plan);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

const std::string kNamed = std::string("actor ") + kActor + " at rank 0, firing 5";

TEST_CASE("with one launch at a time the actor whose kernel went wrong is named") {
  for (const char* mesh : {"", "pipe=2"}) {
    SmallRun run = Small(mesh, nullptr);
    const proto::Plan plan = CompileSmall(run);
    for (uint64_t seed = 0; seed < 10; ++seed) {
      INFO(mesh << ", seed " << seed);
      emulated::Reset({.devices = 2, .model = emulated::kModels[seed % 3], .seed = seed});
      const DeviceBackend backend = Broken(OverNccl(2), 5);
      run.backend = &backend;
      run.synchronous = true;
      run.interleaving.reset();  // workers have threads
      if (seed % 2 == 0) run.interleaving = seed;
      const std::string failure = RunFailure(run, plan);
      CHECK_THAT(failure, Contains("program train, step 1, " + kNamed + ": "));
      CHECK_THAT(failure, Contains("cudaErrorLaunchFailure"));
      CHECK_THAT(failure, !Contains("oldest"));
    }
  }
}

TEST_CASE("else it is among the oldest that the device had not completed") {
  SmallRun run = Small("", nullptr);
  proto::Plan plan = CompileSmall(run);
  // So that the oldest launch of a stream is the one that runs.
  plan.set_launch_queue(1);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    INFO("seed " << seed);
    emulated::Reset({.devices = 1, .model = emulated::kModels[seed % 3], .seed = seed});
    const DeviceBackend backend = Broken(HostBackend(1), 5);
    run.backend = &backend;
    run.interleaving = seed;
    const std::string failure = RunFailure(run, plan);
    CHECK_THAT(failure, Contains("cudaErrorLaunchFailure") && Contains(kNamed));
    if (failure.find("step 1, " + kNamed + ": ") != std::string::npos) continue;
    CHECK_THAT(failure, Contains("the oldest actors not completed on the device: "));
    CHECK_THAT(failure, Contains("with --synchronous the actor that failed is named"));
  }
}

TEST_CASE("a run on a device that is lost says so") {
  emulated::Reset({.devices = 1});
  const DeviceBackend backend = Broken(HostBackend(1), 5);
  const SmallRun run = Small("", &backend);
  CHECK_THROWS_WITH(TrainAfterFailure(run, CompileSmall(run)),
                    Contains("the device of rank 0 was lost in an earlier run, start the program "
                             "anew: GPU 0: cudaErrorLaunchFailure (launch failure)") &&
                        !Contains("actor"));
}

TEST_CASE("after a call that failed, of a device that is not lost, the next run is good") {
  emulated::Reset({.devices = 1});
  const DeviceBackend backend = HostBackend(1);
  SmallRun run = Small("pipe=2", &backend);
  const proto::Plan plan = CompileSmall(run);
  const SmallResult good = Train(run, plan);
  run.before = [trained = 0](const Runtime&, const std::string& program) mutable {
    if (program == "train" && trained++ == 0) emulated::Fail("cudaLaunchHostFunc", 20);
  };
  const SecondResult second = TrainAfterFailure(run, plan);
  CHECK_THAT(second.failure, Contains("program train") && Contains("cudaLaunchHostFunc"));
  CHECK(second.result == good);
}

TEST_CASE("after an exchange over NCCL that was aborted, the next run has new communicators") {
  emulated::Reset({.devices = 4});
  {
    const DeviceBackend backend = OverNccl(4);
    SmallRun run = Small("data=4", &backend);
    run.Set("--batch=16");
    const proto::Plan plan = CompileSmall(run);
    const SmallResult good = Train(run, plan);
    run.before = [trained = 0](const Runtime&, const std::string& program) mutable {
      if (program == "train" && trained++ == 0) emulated::Fail("ncclAllReduce", 6);
    };
    const SecondResult second = TrainAfterFailure(run, plan);
    CHECK_THAT(second.failure, Contains("program train") && Contains("NCCL: "));
    CHECK(second.result == good);
  }
  CHECK(emulated::LiveObjects() == 0);
}

}  // namespace
}  // namespace oneflow
