// A small GPT trains with the kernels of a GPU, each thread a fiber: its losses are the CPU's up to
// rounding, and the same bits under any schedule of the device.
#include <cmath>
#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

SmallRun OnGpu(SmallRun run, const DeviceBackend* backend) {
  run.device = proto::CUDA;
  run.backend = backend;
  return run;
}

void CheckClose(const SmallResult& got, const SmallResult& want, double most) {
  REQUIRE(got.losses.size() == want.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i) {
    INFO("step " << i << ": " << got.losses[i] << " for " << want.losses[i]);
    CHECK(std::abs(got.losses[i] - want.losses[i]) < most);
  }
}

TEST_CASE("losses in f32 and bf16 are the CPU's") {
  emulated::Reset({.devices = 1, .model = emulated::Model::kLazy});
  const auto backend = cuda::OpenBackend({});
  REQUIRE(backend.ok());
  for (const bool narrow : {false, true}) {
    INFO((narrow ? "bf16" : "f32"));
    SmallRun run;
    run.steps = 2;
    run.precision = narrow ? proto::BF16 : proto::F32;
    CheckClose(Train(OnGpu(run, &*backend)), Train(run), narrow ? 2e-2 : 1e-4);
  }
}

TEST_CASE("kernels are loaded before they are launched, unless the environment says otherwise") {
  emulated::Reset({.devices = 1, .model = emulated::Model::kLazy});
  unsetenv("CUDA_MODULE_LOADING");
  REQUIRE(cuda::OpenBackend({}).ok());
  CHECK(std::getenv("CUDA_MODULE_LOADING") == std::string("EAGER"));
  setenv("CUDA_MODULE_LOADING", "LAZY", /*overwrite=*/1);
  REQUIRE(cuda::OpenBackend({}).ok());
  CHECK(std::getenv("CUDA_MODULE_LOADING") == std::string("LAZY"));
}

}  // namespace
}  // namespace oneflow
