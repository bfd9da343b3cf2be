// Training with a GPU a rank and exchanges over NCCL, with the CPU's kernels as the work of
// streams: the CPU's losses, to the bit where NCCL sums no more than two.
#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

DeviceBackend OverNccl() {
  DeviceBackend backend = HostBackend(8);
  cuda::ExchangeOverNccl([] { return cuda::OpenNccl({}); }, cuda::IdsInMemory(), &backend);
  return backend;
}

void CheckClose(const SmallResult& got, const SmallResult& want) {
  REQUIRE(got.losses.size() == want.losses.size());
  for (size_t i = 0; i < want.losses.size(); ++i) {
    INFO("step " << i << ": " << got.losses[i] << " for " << want.losses[i]);
    CHECK(std::abs(got.losses[i] - want.losses[i]) <= 1e-6 * std::abs(want.losses[i]));
  }
}

struct Layout {
  const char* mesh;
  bool sums_of_two;
  AnnotateOptions::Shard shard = AnnotateOptions::kNone;
  bool overlap = false;
};

TEST_CASE("each mesh trains over NCCL with the losses of the CPU") {
  const Layout layouts[] = {
      {"data=2", true},
      {"tensor=2", true},
      {"pipe=2", true},
      {"pipe=2,data=2,tensor=2", true},
      {"data=4", false},
      {"data=4,tensor=2", false},
      {"data=2", true, AnnotateOptions::kStates, true},
      {"data=4", false, AnnotateOptions::kWeights, true},
      {"pipe=2,data=2", true, AnnotateOptions::kStates},
  };
  uint64_t seed = 0;
  for (const Layout& layout : layouts) {
    for (const emulated::Model model : {emulated::Model::kFree, emulated::Model::kSerial}) {
      INFO(layout.mesh << (model == emulated::Model::kSerial ? ", serial" : ", free"));
      SmallRun run;
      run.mesh = layout.mesh;
      run.shard = layout.shard;
      run.overlap = layout.overlap;
      run.batch = 16;
      run.steps = 3;
      const SmallResult on_cpu = Train(run);
      emulated::Reset({.devices = 8, .model = model, .seed = ++seed});
      {
        const DeviceBackend backend = OverNccl();
        run.device = proto::CUDA;
        run.backend = &backend;
        const SmallResult on_gpus = Train(run);
        if (layout.sums_of_two) CHECK(on_gpus == on_cpu);
        CheckClose(on_gpus, on_cpu);
      }
      CHECK(emulated::Diagnostics().empty());
      CHECK(emulated::LiveObjects() == 0);
    }
  }
}

// Packs, sums and copies by the kernels of a GPU, too.
TEST_CASE("with a GPU's kernels the losses are the CPU's up to rounding") {
  for (const Layout& layout : {Layout{"data=2,tensor=2", true},
                               Layout{"pipe=2,data=2", true, AnnotateOptions::kStates, true}}) {
    INFO(layout.mesh);
    SmallRun run;
    run.mesh = layout.mesh;
    run.shard = layout.shard;
    run.overlap = layout.overlap;
    run.steps = 2;
    const SmallResult on_cpu = Train(run);
    emulated::Reset({.devices = 4, .seed = 3});
    const auto backend = cuda::OpenBackend({});
    REQUIRE(backend.ok());
    run.device = proto::CUDA;
    run.backend = &*backend;
    const SmallResult on_gpus = Train(run);
    REQUIRE(on_gpus.losses.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(std::abs(on_gpus.losses[i] - on_cpu.losses[i]) <= 1e-5 * on_cpu.losses[i]);
    }
    CHECK(emulated::Diagnostics().empty());
  }
}

}  // namespace
}  // namespace oneflow
