// The recipe that a plan keeps is complete: compiled, it gives the same plan, byte for byte.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/compile_for_test.h"
#include "compiler/draw_options_for_test.h"
#include "compiler/schedule/order_file.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_format.h"
#include "planning/recipe/make_plan.h"

namespace oneflow {
namespace {

// Nodes of four GPUs of known rates, with slow links between them.
proto::Cluster TwoLevels() {
  proto::Cluster cluster;
  proto::Device* device = cluster.mutable_device();
  device->set_kind(proto::Device::CUDA);
  device->set_peak_flops(1e13);
  device->set_memory_bandwidth(1e12);
  device->set_memory_bytes(int64_t{1} << 40);
  for (const auto& [size, latency, bandwidth] :
       {std::tuple(4, 1e-6, 1e11), std::tuple(100, 1e-5, 1e9)}) {
    proto::Level* level = cluster.add_level();
    level->set_size(size);
    level->set_latency(latency);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

// Returns the plan that the request and its recipe both give.
proto::Plan CheckComplete(const proto::Graph& graph, PlanRequest request) {
  if (!request.known_layouts) request.known_layouts = std::make_shared<KnownLayouts>();
  const proto::Plan plan = MakePlan({graph, "gpt", {}}, request).value().plan;
  const PlanRequest complete{plan.recipe(), plan.cluster(), plan.optimizer(),
                             request.known_layouts};
  INFO(FlagsText(RecipeRows(), plan.recipe()));
  CHECK(SerializePlan(Compile(graph, "gpt", complete).value()) == SerializePlan(plan));
  const Planned again = MakePlan({graph, "gpt", {}}, complete).value();
  CHECK(SerializePlan(again.plan) == SerializePlan(plan));
  CHECK(again.notes.empty());
  return plan;
}

}  // namespace

TEST_CASE("the recipe of a plan of drawn options gives that plan") {
  OptionDraws draw(20261129, TwoLevels());
  int planned = 0;
  for (int i = 0; i < 8; ++i) {
    DrawnCompile drawn = draw.Draw();
    drawn.options.known_layouts = std::make_shared<KnownLayouts>();
    for (int j = 0; j < 3; ++j, draw.Redraw(&drawn)) {
      INFO(drawn.text);
      if (!MakeDraft({drawn.graph, "drawn", {}}, drawn.options).ok()) continue;
      CheckComplete(drawn.graph, drawn.options);
      ++planned;
    }
  }
  CHECK(planned > 16);
}

TEST_CASE("what planning chose is in the recipe of its plan") {
  const proto::Graph graph = BuildModel(SmallGpt(4));
  PlanRequest moved = OptionsFor("tensor=4,data=2", 8, 2);
  moved.cluster = TwoLevels();
  const proto::Recipe ordered = CheckComplete(graph, moved).recipe();
  CHECK(FlagsText(RecipeRows(), ordered).find("--mesh=data=2,tensor=4") != std::string::npos);

  PlanRequest zero = OptionsFor("pipe=4", 16, 16, "zero_bubble", "--global_norm=false");
  zero.cluster = TwoLevels();
  CHECK(CheckComplete(graph, zero).recipe().has_warm_ups());
  zero.recipe.set_fill_memory(true);
  CHECK(CheckComplete(graph, zero).recipe().extra_in_flight() > 0);

  PlanRequest ahead = OptionsFor("data=2", 32, 8, "1f1b", "--overlap --shard=weights");
  const int64_t two = MostDeviceBytes(CheckComplete(graph, ahead));
  ahead.cluster.mutable_device()->set_memory_bytes(two - 1);
  CHECK(CheckComplete(graph, ahead).recipe().prefetch() < kUsualPrefetch);

  for (const char* schedule : {"2bw", "pipedream"}) {
    CHECK(CheckComplete(graph, OptionsFor("pipe=2", 8, 4, schedule)).recipe().steps_a_round() > 1);
  }
  CheckComplete(graph, OptionsFor("tensor=2", 8, 4, "1f1b", "--state_layouts"));
  CheckComplete(graph, OptionsFor("tensor=2", 2, 1, "1f1b", "--purpose=generation"));
  CheckComplete(graph, OptionsFor("tensor=2", 2, 1, "1f1b", "--purpose=evaluation"));
}

TEST_CASE("an order of a user's own is in the recipe of its plan") {
  PlanRequest request{.recipe = MakeRecipe("--mesh=pipe=2 --batch=6 --micro_batches=3")};
  *request.recipe.mutable_order() = ParseOrder(
                                        "stage { task: \"F0 F1 B0 F2 B1 B2\" }\n"
                                        "stage { task: \"F0 B0 F1 B1 F2 B2\" }\n",
                                        "own.textproto")
                                        .value();
  const proto::Recipe recipe = CheckComplete(BuildModel(SmallGpt(2)), request).recipe();
  CHECK(recipe.has_order());
  CHECK(!recipe.has_schedule());
}

}  // namespace oneflow
