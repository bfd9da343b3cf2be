// Training on devices that run by themselves, with the CPU's kernels as their work: the same bits
// as on the CPU, whatever the mesh, the schedule of the pipeline, the schedule of the device, its
// model and the bound on launches. Ranks share one GPU.
#include <cstdlib>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/exec/runtime.h"
#include "tests/cuda/host_backend.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

const std::vector<const char*>& Meshes() {
  static const std::vector<const char*> meshes = {
      "",       "data=2",        "tensor=2",        "data=2,tensor=2",
      "pipe=2", "pipe=2,data=2", "pipe=2,tensor=2", "pipe=2,data=2,tensor=2"};
  return meshes;
}

bool IsFull() { return std::getenv("ONEFLOW_TEST_FULL") != nullptr; }

// The runs of one plan under `seeds` schedules, with a bound on launches and a model of three each.
// The next plan goes on with the next of each, so that few seeds a plan are all of them, over
// plans.
void CheckBits(SmallRun run, int seeds) {
  SmallRun plain = run;
  plain.Set("--offload=none --update_on=device");
  const SmallResult on_cpu = Train(plain);
  const DeviceBackend backend = HostBackend(1);
  run.Set("--device=cuda");
  run.backend = &backend;
  proto::Plan plan = CompileSmall(run);
  static int turn = 0;
  for (const int last = turn + seeds; turn < last; ++turn) {
    const int seed = turn % 50, model = turn % 3;
    plan.set_launch_queue(std::vector{1, 2, 64}[turn / 3 % 3]);
    run.interleaving = seed;
    INFO("seed " << seed << ", model " << model << ", launch queue " << plan.launch_queue());
    emulated::Reset(
        {.devices = 1, .model = emulated::kModels[model], .seed = static_cast<uint64_t>(seed)});
    REQUIRE(Train(run, plan) == on_cpu);
    CHECK(emulated::LiveObjects() == 0);
    CHECK(emulated::Diagnostics().empty());
  }
}

SmallRun Small(const char* mesh) {
  SmallRun run;
  run.Set("mesh", mesh);
  run.steps = 3;
  return run;
}

TEST_CASE("each mesh and schedule trains with the bits of the CPU") {
  for (const char* mesh : Meshes()) {
    for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zero_bubble", "2bw"}) {
      INFO(mesh << ", " << schedule);
      SmallRun run = Small(mesh);
      run.recipe.set_schedule(schedule);
      run.recipe.set_global_norm(run.recipe.schedule() != "2bw");
      if (run.recipe.schedule() == "2bw") run.steps = 1;  // of several
      CheckBits(run, IsFull() ? 50 : 1);
    }
  }
}

TEST_CASE("so do recompute, sequence parallelism, overlap and split states") {
  int turn = 0;
  const auto check = [&](const SmallRun& run) {
    if (IsFull() || turn++ % 2 == 0) CheckBits(run, IsFull() ? 2 : 1);
  };
  for (const char* mesh : Meshes()) {
    INFO(mesh);
    SmallRun run = Small(mesh);
    run.Set("--recompute=full");
    check(run);
    run = Small(mesh);
    run.Set("--sequence_parallel");
    check(run);
    run = Small(mesh);
    run.Set("--overlap --shard=states");
    check(run);
  }
}

TEST_CASE("so do weights that are gathered ahead of compute") {
  for (const char* mesh : {"pipe=2,data=2", "data=2", "data=2,tensor=2"}) {
    for (const char* schedule : {"1f1b", "interleaved", "zero_bubble"}) {
      INFO(mesh << ", " << schedule);
      SmallRun run = Small(mesh);
      run.recipe.set_schedule(schedule);
      run.Set("--overlap --shard=weights --prefetch=1");
      if (run.recipe.schedule() == "zero_bubble") {
        run.Set("--precision=bf16");  // casts on the stream of gathers
        run.model.set_bias(false);    // GPUs read biases as bf16
      }
      run.synchronous = run.recipe.schedule() == "zero_bubble";
      CheckBits(run, IsFull() ? 6 : 4);
    }
  }
}

TEST_CASE("so do registers that rest in the host's memory, and updates of the host") {
  int turn = 0;
  for (const char* mesh : Meshes()) {
    for (const char* schedule : {"1f1b", "interleaved", "zero_bubble"}) {
      for (const char* what : {"activations:all", "states", "weights", "none",
                               "activations:all,states,weights", "activations:all,weights"}) {
        ++turn;
        if (!IsFull() && turn % 7 != 0) continue;
        SmallRun run = Small(mesh);
        run.recipe.set_schedule(schedule);
        run.Set("offload", what);
        run.recipe.set_update_on(turn % 6 == 4 || turn % 6 == 0 ? proto::UPDATE_ON_HOST
                                                                : proto::UPDATE_ON_DEVICE);
        run.recipe.set_overlap(turn % 2 == 0);
        run.synchronous = turn % 3 == 0;
        INFO(mesh << ", " << schedule << ", " << what
                  << (run.recipe.update_on() == proto::UPDATE_ON_HOST ? ", updated by the host"
                                                                      : ""));
        CheckBits(run, IsFull() ? 3 : 1);
      }
    }
  }
}

TEST_CASE("so does a device that has one launch at a time") {
  const std::vector<const char*> schedules = {"1f1b", "interleaved", "zero_bubble"};
  int turn = 0;
  for (const char* mesh : Meshes()) {
    const char* const drawn = schedules[turn++ % schedules.size()];
    for (const char* schedule : schedules) {
      if (!IsFull() && schedule != drawn) continue;
      INFO(mesh << ", " << schedule);
      SmallRun run = Small(mesh);
      run.recipe.set_schedule(schedule);
      run.synchronous = true;
      run.recipe.set_overlap(run.recipe.schedule() == "1f1b");
      CheckBits(run, IsFull() ? 2 : 1);
    }
  }
}

TEST_CASE("workers on separate threads compute the same bits") {
  for (size_t m = 0; m < Meshes().size(); ++m) {
    INFO(Meshes()[m]);
    SmallRun run = Small(Meshes()[m]);
    const SmallResult on_cpu = Train(run);
    emulated::Reset({.devices = 1, .model = emulated::kModels[m % 3]});
    const DeviceBackend backend = HostBackend(1);
    run.Set("--device=cuda");
    run.backend = &backend;
    CHECK(Train(run) == on_cpu);
  }
}

TEST_CASE("bytes allocated are the plan's") {
  for (const char* mesh : {"", "pipe=2,data=2"}) {
    emulated::Reset({.devices = 4});
    const DeviceBackend backend = HostBackend(4);
    SmallRun run = Small(mesh);
    run.Set("--device=cuda");
    const proto::Plan plan = CompileSmall(run);
    const auto runtime = Runtime::Create(plan, {.backend = &backend});
    REQUIRE(runtime.ok());
    int64_t pinned = 0;
    for (int rank = 0; rank < (*runtime)->ranks(); ++rank) {
      const int stages = plan.memory_size() / 2, stage = rank * stages / (*runtime)->ranks();
      CHECK(emulated::AllocatedBytes(rank) == plan.memory(stage).arena_bytes());
      pinned += plan.memory(stages + stage).arena_bytes();
    }
    CHECK(emulated::PinnedBytes() == pinned);
  }
}

TEST_CASE("between the first step and the last nothing is allocated, freed or waited for") {
  for (const int queue : {1, 2, 64}) {
    INFO("launch queue " << queue);
    emulated::Reset({.devices = 1});
    const DeviceBackend backend = HostBackend(1);
    SmallRun run = Small("");
    run.Set("--device=cuda");
    run.backend = &backend;
    proto::Plan plan = CompileSmall(run);
    plan.set_launch_queue(queue);
    run.interleaving = 1;
    run.steps = 4;
    emulated::Step step;
    run.on_report = [&](int64_t report) {
      if (report == 0) emulated::BeginStep();
      if (report == 3) step = emulated::EndStep();
    };
    Train(run, plan);
    CHECK(step.forbidden.empty());
    REQUIRE(!step.most_in_flight.empty());
    for (const auto& [stream, most] : step.most_in_flight) CHECK(most <= queue);
  }
}

}  // namespace
}  // namespace oneflow
