// Small models train with the kernels of a GPU, each thread a fiber: their losses are the CPU's up
// to rounding.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/backend.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "oneflow_core/model/model.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

SmallRun OnGpu(SmallRun run, const DeviceBackend* backend) {
  run.Set("--device=cuda");
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
    run.recipe.set_precision(narrow ? proto::BF16 : proto::F32);
    CheckClose(Train(OnGpu(run, &*backend)), Train(run), narrow ? 2e-2 : 1e-4);
  }
}

// A mixture of experts whose router has both losses.
SmallRun OfExperts(const std::string& mesh) {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(2), config.set_hidden(16), config.set_inner(12), config.set_heads(4),
      config.set_groups(4);
  config.set_head_dim(4), config.set_sequence(8), config.set_vocab(24);
  config.set_experts(4), config.set_experts_per_token(2), config.set_aux_loss_coeff(0.1),
      config.set_z_loss_coeff(0.01);
  SmallRun run;
  run.model.set_sequence(config.sequence()), run.model.set_vocab(config.vocab());
  run.edit = [config](proto::Graph* graph) { *graph = BuildModel(config); };
  run.Set("mesh", mesh);
  run.Set("--batch=8 --micro_batches=2");
  run.steps = 2;
  return run;
}

TEST_CASE("a mixture of experts has the losses of the CPU in f32 and bf16") {
  for (const std::string mesh : {"", "data=2,expert=2"}) {
    for (const auto& [narrow, documents] :
         {std::pair(false, false), std::pair(true, false), std::pair(false, true)}) {
      INFO(mesh << (narrow ? " bf16" : " f32") << (documents ? ", documents" : ""));
      SmallRun run = OfExperts(mesh);
      run.recipe.set_documents(documents);
      run.recipe.set_precision(narrow ? proto::BF16 : proto::F32);
      const SmallResult on_cpu = Train(run);
      emulated::Reset({.devices = 4, .model = emulated::Model::kLazy});
      const auto backend = cuda::OpenBackend({.ranks = mesh.empty() ? 1 : 4});
      REQUIRE(backend.ok());
      CheckClose(Train(OnGpu(run, &*backend)), on_cpu, narrow ? 2e-2 : 1e-4);
      CHECK(emulated::Diagnostics().empty());
    }
  }
}

TEST_CASE("positions split over devices have the losses of the CPU in f32 and bf16") {
  proto::Model config = MakeModel("family: 'llama'");
  config.set_layers(2), config.set_hidden(16), config.set_inner(12), config.set_heads(4),
      config.set_groups(2);
  config.set_head_dim(4), config.set_sequence(16), config.set_vocab(24);
  for (const bool narrow : {false, true}) {
    INFO((narrow ? "bf16" : "f32"));
    SmallRun run;
    run.model.set_sequence(config.sequence()), run.model.set_vocab(config.vocab());
    run.edit = [config](proto::Graph* graph) { *graph = BuildModel(config); };
    run.Set("--mesh=context=4 --context_pieces=2 --batch=2 --micro_batches=2");
    run.steps = 3;
    run.recipe.set_precision(narrow ? proto::BF16 : proto::F32);
    const SmallResult on_cpu = Train(run);
    emulated::Reset({.devices = 4, .model = emulated::Model::kLazy});
    const auto backend = cuda::OpenBackend({.ranks = 4});
    REQUIRE(backend.ok());
    CheckClose(Train(OnGpu(run, &*backend)), on_cpu, narrow ? 2e-2 : 1e-4);
    CHECK(emulated::Diagnostics().empty());
  }
}

TEST_CASE("logits in pieces have the losses of the CPU in f32 and bf16") {
  for (const bool narrow : {false, true}) {
    INFO((narrow ? "bf16" : "f32"));
    SmallRun run;
    run.model.set_layers(1), run.model.set_sequence(40);
    run.Set("--batch=4 --micro_batches=2");
    run.steps = 2;
    run.Set("--loss_pieces=2");  // of 64 and 16 rows
    run.recipe.set_precision(narrow ? proto::BF16 : proto::F32);
    const SmallResult on_cpu = Train(run);
    emulated::Reset({.devices = 1, .model = emulated::Model::kLazy});
    const auto backend = cuda::OpenBackend({});
    REQUIRE(backend.ok());
    CheckClose(Train(OnGpu(run, &*backend)), on_cpu, narrow ? 2e-2 : 1e-4);
    CHECK(emulated::Diagnostics().empty());
  }
}

// Of losses and norms.
double MostApart(const SmallResult& got, const SmallResult& want) {
  double most = 0;
  for (size_t i = 0; i < want.losses.size(); ++i) {
    most = std::max(most, std::abs(got.losses[i] / want.losses[i] - 1));
    most = std::max(most, std::abs(got.norms[i] / want.norms[i] - 1));
  }
  return most;
}

TEST_CASE("offloading changes no bit, and the update of the host next to none") {
  for (const bool narrow : {false, true}) {
    SmallRun run;
    run.model.set_layers(2);
    run.Set("--batch=4 --micro_batches=2");
    run.steps = 3;
    run.recipe.set_precision(narrow ? proto::BF16 : proto::F32);
    emulated::Reset({.devices = 1, .model = emulated::Model::kSerial});
    const auto backend = cuda::OpenBackend({});
    REQUIRE(backend.ok());
    const SmallResult expected = Train(OnGpu(run, &*backend));
    int turn = 0;
    for (const char* what :
         {"activations:all", "states", "weights", "activations:all,states,weights"}) {
      if (narrow && turn < 3) {  // in bf16 all at once
        ++turn;
        continue;
      }
      const auto model = emulated::kModels[turn++ % 3];
      INFO((narrow ? "bf16, " : "f32, ") << what);
      emulated::Reset({.devices = 1, .model = model});
      const auto other = cuda::OpenBackend({});
      REQUIRE(other.ok());
      run.Set("offload", what);
      run.recipe.set_overlap(turn % 2 == 0);
      CHECK(Train(OnGpu(run, &*other)) == expected);
      CHECK(emulated::Diagnostics().empty());
    }
    for (const char* what : {"none", "activations:all,weights"}) {
      if (narrow && what == std::string("none")) continue;
      emulated::Reset({.devices = 1, .model = emulated::Model::kLazy});
      const auto other = cuda::OpenBackend({});
      REQUIRE(other.ok());
      run.Set("offload", what);
      run.Set("--update_on=host");
      const double apart = MostApart(Train(OnGpu(run, &*other)), expected);
      INFO((narrow ? "bf16, " : "f32, ") << what << ": " << apart);
      CHECK(apart <= 1e-6);  // 8e-8 in f32, 2e-9 in bf16
      CHECK(emulated::Diagnostics().empty());
    }
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
