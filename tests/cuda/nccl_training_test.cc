// Training with a GPU a rank and exchanges over NCCL, with the CPU's kernels as the work of
// streams: the CPU's losses, to the bit where NCCL sums no more than two.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/exchange/exchange_over_nccl.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

DeviceBackend OverNccl(DeviceBackend backend) {
  const absl::StatusOr<cuda::Nccl> nccl = cuda::OpenNccl({});
  REQUIRE(nccl.ok());
  cuda::ExchangeOverNccl(*nccl, cuda::IdsInMemory(), &backend);
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
  const char* shard = "none";
  bool overlap = false;
  int connections = -1;  // pairs that exchange messages, of all communicators; -1: any
};

TEST_CASE("each mesh trains over NCCL with the losses of the CPU") {
  const Layout layouts[] = {
      {.mesh = "data=2", .sums_of_two = true, .connections = 0},
      {.mesh = "tensor=2", .sums_of_two = true},
      {.mesh = "pipe=2", .sums_of_two = true, .connections = 4},
      {"pipe=2,data=2,tensor=2", true},
      {"data=4", false},
      {"data=4,tensor=2", false},
      {"data=2", true, "states", true},
      {"data=4", false, "weights", true},
      {"pipe=2,data=2", true, "states"},
  };
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  uint64_t seed = 0;
  for (const Layout& layout : layouts) {
    // One model each, in the full tier all.
    for (int i = 0; i < (full ? 3 : 1); ++i) {
      const emulated::Model model = emulated::kModels[seed % 3];
      INFO(layout.mesh << ", model " << static_cast<int>(model));
      SmallRun run;
      run.Set("mesh", layout.mesh);
      run.Set("shard", layout.shard);
      run.recipe.set_overlap(layout.overlap);
      run.Set("--batch=16");
      run.steps = 3;
      const SmallResult on_cpu = Train(run);
      emulated::Reset({.devices = 8, .model = model, .seed = ++seed});
      {
        const DeviceBackend backend = OverNccl(HostBackend(8));
        run.Set("--device=cuda");
        run.backend = &backend;
        emulated::Step step;
        run.on_report = [&](int64_t report) {
          if (report == 0) emulated::BeginStep();
          if (report == 2) step = emulated::EndStep();
        };
        const SmallResult on_gpus = Train(run);
        // Nothing is connected, made or waited for between the first step and the last.
        CHECK(step.forbidden.empty());
        if (layout.connections >= 0) CHECK(emulated::Connections() == layout.connections);
        if (layout.sums_of_two) CHECK(on_gpus == on_cpu);
        CheckClose(on_gpus, on_cpu);
      }
      CHECK(emulated::Diagnostics().empty());
      CHECK(emulated::LiveObjects() == 0);
    }
  }
}

// Members that wait for the one that failed, on the device, wait no more; and the next run is good.
TEST_CASE("a device that fails in the middle of a step ends the run of all") {
  for (const char* mesh : {"data=2", "pipe=2,data=2", "tensor=2"}) {
    for (const int calls : {1, 20, 33}) {
      INFO(mesh << ", call " << calls);
      emulated::Reset({.devices = 4,
                       .model = emulated::kModels[calls % 3],
                       .seed = static_cast<uint64_t>(calls)});
      SmallRun run;
      run.Set("mesh", mesh);
      run.steps = 3;
      const SmallResult on_cpu = Train(run);
      const auto left = std::make_shared<std::atomic<int>>(calls);
      DeviceBackend backend = HostBackend(8);
      backend.make_kernel = [left, make = backend.make_kernel](
                                Device& device, const KernelSetup& s) -> absl::StatusOr<Kernel> {
        const bool last_rank = s.coordinate.back() == 1;
        absl::StatusOr<Kernel> kernel = make(device, s);
        if (!kernel.ok() || s.kind != "layer_norm" || !last_rank) return kernel;
        return Kernel([left, kernel = *kernel](const KernelCall& call) {
          return --*left == 0 ? absl::DataLossError("planted") : kernel(call);
        });
      };
      backend = OverNccl(backend);
      run.Set("--device=cuda");
      run.backend = &backend;
      CHECK_THROWS_WITH(Train(run), Catch::Matchers::Contains("planted"));
      CHECK(emulated::LiveObjects() == 0);
      CHECK(Train(run) == on_cpu);
    }
  }
}

// Packs, sums and copies by the kernels of a GPU, too.
TEST_CASE("with a GPU's kernels the losses are the CPU's up to rounding") {
  for (const Layout& layout :
       {Layout{"data=2,tensor=2", true}, Layout{"pipe=2,data=2", true, "states", true}}) {
    INFO(layout.mesh);
    SmallRun run;
    run.Set("mesh", layout.mesh);
    run.Set("shard", layout.shard);
    run.recipe.set_overlap(layout.overlap);
    run.steps = 2;
    const SmallResult on_cpu = Train(run);
    emulated::Reset({.devices = 4, .model = emulated::Model::kLazy, .seed = 3});
    const auto backend = cuda::OpenBackend({.ranks = 4});
    REQUIRE(backend.ok());
    run.Set("--device=cuda");
    run.backend = &*backend;
    const SmallResult on_gpus = Train(run);
    REQUIRE(on_gpus.losses.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(std::abs(on_gpus.losses[i] - on_cpu.losses[i]) <= 1e-5 * on_cpu.losses[i]);
    }
    CHECK(emulated::Diagnostics().empty());
  }
}

TEST_CASE(
    "the GPUs of a process are those of its position on the host, or those that it was given") {
  struct Position {
    int visible, own, ranks_of_host, ranks_before, first;
  };
  for (const Position& p :
       {Position{8, 8, 8, 0, 0}, Position{8, 1, 8, 3, 3}, Position{8, 2, 8, 6, 6},
        Position{8, 2, 4, 2, 2}, Position{1, 1, 8, 3, 0}, Position{2, 2, 8, 4, 0}}) {
    INFO(p.visible << " visible, " << p.own << " of " << p.ranks_of_host);
    const absl::StatusOr<int> first =
        cuda::FirstGpu(p.visible, p.own, p.ranks_of_host, p.ranks_before);
    REQUIRE(first.ok());
    CHECK(*first == p.first);
  }
  const auto why = [](int visible, int own, int ranks_of_host) {
    return std::string(cuda::FirstGpu(visible, own, ranks_of_host, 0).status().message());
  };
  CHECK(why(2, 4, 4) ==
        "the plan is for 4 GPUs, this machine has 2: with --logical_devices ranks share them");
  CHECK(why(2, 1, 4) ==
        "the processes of this host run 4 ranks of the plan, and this one sees 2 GPUs: show each "
        "all of them, or as many as it has ranks, which are 1");
}

}  // namespace
}  // namespace oneflow
