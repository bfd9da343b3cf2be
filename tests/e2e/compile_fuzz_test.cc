// Whatever is drawn of models, meshes and options, compile gives a proved plan, or says what is
// wrong with the input or that it does not fit: never an error of the compiler's own. The short
// form draws 20 models with 5 sets of options each; ONEFLOW_TEST_FULL draws 600.
#include <cstdlib>

#include "absl/status/status.h"
#include "catch2/catch.hpp"
#include "compiler/draw_options_for_test.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/recipe/make_plan.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/cli/known_clusters.h"

namespace oneflow {
namespace {

proto::Cluster A100() {
  proto::Cluster cluster;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(ReadClusterText("a100")->text, &cluster));
  cluster.mutable_device()->set_memory_bytes(int64_t{1} << 40);
  return cluster;
}

}  // namespace

TEST_CASE("no drawn option makes a plan that fails its proof") {
  const int models = std::getenv("ONEFLOW_TEST_FULL") != nullptr ? 600 : 20;
  OptionDraws draw(20261128, A100());
  int compiled = 0, planned = 0;
  for (int i = 0; i < models; ++i) {
    DrawnCompile drawn = draw.Draw();
    drawn.options.recipe.set_state_layouts(true);
    for (int j = 0; j < 5; ++j, draw.Redraw(&drawn)) {
      const absl::StatusOr<Planned> plan = MakePlan({drawn.graph, "drawn", {}}, drawn.options);
      INFO(drawn.text << "\n" << plan.status().ToString());
      CHECK((plan.ok() || absl::IsInvalidArgument(plan.status()) ||
             absl::IsResourceExhausted(plan.status())));
      ++compiled;
      if (!plan.ok()) continue;
      ++planned;
      drawn.graph = plan->plan.graph();
    }
  }
  CHECK(planned >= compiled * 9 / 10);
}

// The table of tokens rests split over data by columns and over tensor by words, and is looked up
// split over tensor by columns: two exchanges, of which the second reads the first.
TEST_CASE("a weight that takes two exchanges for a use is gathered ahead") {
  for (const int ahead : {1, 2}) {
    PlanRequest request{
        .recipe = MakeRecipe("--mesh=pipe=2,data=4,tensor=4 --batch=1536 --micro_batches=16 "
                             "--recompute=full --precision=bf16 --sequence_parallel "
                             "--shard=weights --device=cuda"),
        .cluster = A100()};
    request.recipe.set_prefetch(ahead);
    const proto::Model model =
        MakeModel("family: 'gpt' layers: 3 heads: 4 hidden: 64 dropout: 0.1");
    const proto::Plan plan = MakePlan({BuildModel(model), "gpt", {}}, request)->plan;
    const proto::Program& train = plan.program(1);
    int found = 0;
    for (const proto::Stream& stream : train.stream()) {
      if (stream.name() != "gather" || stream.stage() != 0) continue;
      const proto::Segment& forward = train.segment(stream.order(0).segment(0));
      CHECK(train.actor(forward.actor(0)).name() == "wte.all_gather+1");  // and wpe
      CHECK(train.actor(forward.actor(1)).name() == "wte.all_to_all");
      ++found;
    }
    CHECK(found == 1);
  }
}

}  // namespace oneflow
