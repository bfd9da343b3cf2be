// Training with a GPU a rank and exchanges over NCCL, with the CPU's kernels as the work of
// streams: the CPU's losses, to the bit where NCCL sums no more than two.
#include <cmath>
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

DeviceBackend OverNccl() {
  DeviceBackend backend = HostBackend(8);
  const absl::StatusOr<cuda::Nccl> nccl = cuda::OpenNccl({});
  REQUIRE(nccl.status() == absl::OkStatus());
  REQUIRE(cuda::ExchangeOverNccl(*nccl, cuda::IdsInMemory(), &backend) == absl::OkStatus());
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

}  // namespace
}  // namespace oneflow
