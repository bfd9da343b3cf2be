// How much more than the least bytes plans of GPT-2 take: arena over lower bound. The limits hold
// on every stage.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

// Of all bytes, and of those that are neither weights nor optimizer. `prefetch`: uses of weights
// that are gathered ahead, over tensor here, where a plan gathers them at all.
struct Limits {
  double total = 1.031, rest = 1.08;
  int prefetch = 0;
};

proto::Plan CompileCase(const proto::Model& model, const std::string& mesh, int batch,
                        int micro_batches, const std::string& schedule, proto::DeviceKind device,
                        int chunks = 0, int prefetch = 0) {
  PlanRequest options = OptionsFor(mesh, batch, micro_batches, schedule);
  options.recipe.set_prefetch(prefetch);
  options.recipe.set_device(device);
  if (chunks > 0) options.recipe.set_chunks(chunks);
  return Compile(BuildModel(model), "gpt", options).value();
}

void CheckLimitsOn(proto::DeviceKind device, const proto::Model& model, const std::string& mesh,
                   int batch, int micro_batches, const std::string& schedule, Limits limits) {
  const proto::Plan plan =
      CompileCase(model, mesh, batch, micro_batches, schedule, device, 0, limits.prefetch);
  double total = 0, rest = 0;
  for (const proto::StageMemory& m : plan.memory()) {
    if (m.kind() != proto::DEVICE) continue;  // pinned memory of the host has no bound in the plan
    const auto arena = static_cast<double>(m.arena_bytes());
    const auto bound = static_cast<double>(LowerBoundBytes(plan, m.stage()));
    const auto kept = static_cast<double>(m.persistent_bytes());
    total = std::max(total, arena / bound);
    rest = std::max(rest, (arena - kept) / (bound - kept));
  }
  INFO(proto::DeviceKind_Name(device) << ", " << model.layers() << " layers, mesh " << mesh << ", "
                                      << micro_batches << " micro-batches, " << schedule << ": "
                                      << total << " of all bytes, " << rest << " of the rest");
  CHECK(total <= limits.total);
  CHECK(rest <= limits.rest);
}

void CheckLimits(const proto::Model& model, const std::string& mesh, int batch, int micro_batches,
                 const std::string& schedule = "1f1b") {
  for (const proto::DeviceKind device : {proto::CPU, proto::CUDA}) {
    CheckLimitsOn(device, model, mesh, batch, micro_batches, schedule, {});
  }
}

}  // namespace

TEST_CASE("arenas of GPT-2 124M are close to their lower bound on 1, 2, 4 and 8 devices") {
  const proto::Model model = MakeModel("family: 'gpt' preset: 'gpt2-124m'");
  CheckLimits(model, "", 4, 1);
  CheckLimits(model, "", 16, 4);
  for (const char* mesh : {"data=2", "tensor=2", "pipe=2", "pipe=2,data=2"}) {
    CheckLimits(model, mesh, 16, 4);
  }
  CheckLimits(model, "pipe=4", 32, 8);
  CheckLimits(model, "pipe=2,data=2,tensor=2", 32, 4);
  CheckLimitsOn(proto::CPU, model, "pipe=4,tensor=2", 32, 8, "1f1b", {});
  // The first exchange of gradients goes on while the last micro-batch is still in its backward, so
  // what it packs and writes cannot use the bytes of saved activations (docs/performance.md).
  CheckLimitsOn(proto::CUDA, model, "pipe=4,tensor=2", 32, 8, "1f1b", {.total = 1.053});
  CheckLimits(model, "pipe=8", 64, 16);
}

// Uses of a task that follows itself are a cycle: at fixed addresses it can take more buffers than
// are held (docs/prefetch.md).
TEST_CASE("with weights that are gathered ahead, arenas are a little further from their bound") {
  const proto::Model small = MakeModel("family: 'gpt' preset: 'gpt2-124m'"),
                     large = MakeModel("family: 'gpt' preset: 'gpt2-350m'");
  for (const int prefetch : {1, 2}) {
    const Limits limits{.total = 1.07, .rest = 1.1, .prefetch = prefetch};
    CheckLimitsOn(proto::CUDA, small, "pipe=4,tensor=2", 32, 8, "1f1b", limits);
    CheckLimitsOn(proto::CUDA, large, "pipe=4,tensor=2", 32, 8, "1f1b", limits);
    CheckLimitsOn(proto::CUDA, large, "pipe=4,tensor=2", 32, 8, "zero_bubble", limits);
  }
}

TEST_CASE("arenas are close to their lower bound with one micro-batch, most of it gradients") {
  for (const int64_t sequence : {256, 1024}) {
    proto::Model model = MakeModel("family: 'gpt' preset: 'gpt2-124m'");
    model.set_sequence(sequence);
    for (const char* mesh : {"data=2", "tensor=2", "data=4", "data=2,tensor=2"}) {
      CheckLimits(model, mesh, 4, 1);
    }
    CheckLimits(model, "data=4,tensor=2", 8, 1);
    CheckLimits(model, "data=8", 8, 1);
  }
}

TEST_CASE("arenas are close to their lower bound with no more micro-batches than stages") {
  const proto::Model small = MakeModel("family: 'gpt' preset: 'gpt2-124m'"),
                     large = MakeModel("family: 'gpt' preset: 'gpt2-350m'");
  CheckLimits(small, "pipe=2", 2, 2);
  CheckLimits(small, "pipe=2,data=2", 4, 2);
  CheckLimits(small, "pipe=4", 8, 2);
  CheckLimits(small, "pipe=4", 16, 4);
  CheckLimits(large, "pipe=4", 4, 4);
  CheckLimits(large, "pipe=8", 8, 8);
}

TEST_CASE("of interleaved chunks the stage that takes most is close to its lower bound") {
  const proto::Model model = MakeModel("family: 'gpt' preset: 'gpt2-350m'");
  struct Case {
    const char* mesh;
    int chunks;
    double total;
  };
  for (const auto& [mesh, chunks, total] :
       {Case{"pipe=8", 3, 1.042}, Case{"pipe=4", 3, 1.165}, Case{"pipe=4", 2, 1.07}}) {
    for (const proto::DeviceKind device : {proto::CPU, proto::CUDA}) {
      const proto::Plan plan = CompileCase(model, mesh, 64, 32, "interleaved", device, chunks);
      int64_t arena = 0, bound = 0;
      for (const proto::StageMemory& m : plan.memory()) {
        if (m.kind() != proto::DEVICE) continue;
        arena = std::max(arena, m.arena_bytes());
        bound = std::max(bound, LowerBoundBytes(plan, m.stage()));
      }
      INFO(proto::DeviceKind_Name(device)
           << ", " << mesh << ", " << chunks << " chunks: " << arena << " bytes, bound " << bound);
      CHECK(static_cast<double>(arena) <= total * static_cast<double>(bound));
    }
  }
}

TEST_CASE("arenas of GPipe are close to their lower bound, of many micro-batches, too") {
  const proto::Model model = MakeModel("family: 'gpt' preset: 'gpt2-124m'");
  CheckLimits(model, "pipe=4", 8, 8, "gpipe");
  CheckLimits(model, "pipe=4", 64, 64, "gpipe");
}

TEST_CASE("arenas of zero bubble are close to their lower bound, stages of several layers") {
  const proto::Model small = MakeModel("family: 'gpt' preset: 'gpt2-124m'"),
                     large = MakeModel("family: 'gpt' preset: 'gpt2-350m'");
  CheckLimits(small, "pipe=2", 16, 4, "zero_bubble");
  CheckLimits(small, "pipe=2,data=2", 16, 4, "zero_bubble");
  for (const char* mesh : {"pipe=4", "pipe=4,tensor=2"}) {
    CheckLimits(large, mesh, 32, 8, "zero_bubble");
  }
}

TEST_CASE("arenas of larger GPT-2 are close to their lower bound") {
  for (const char* preset : {"gpt2-350m", "gpt2-774m"}) {
    const proto::Model model = MakeModel(absl::StrCat("family: 'gpt' preset: '", preset, "'"));
    CheckLimits(model, "pipe=4", 32, 8);
    CheckLimits(model, "pipe=4,tensor=2", 32, 8);
    CheckLimits(model, "pipe=8", 64, 16);
  }
}

}  // namespace oneflow
