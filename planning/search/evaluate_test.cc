#include "planning/search/evaluate.h"

#include <catch2/catch.hpp>

#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/draw_for_test.h"
#include "planning/search/formula.h"
#include "planning/search/model_shape.h"

namespace oneflow {
namespace {

constexpr int64_t kSequence = 1024;

SearchSpec SmallSpec(const std::string& flags) {
  const std::string model = "layers: 6 heads: 12 hidden: 768 vocab: 4096 sequence: ";
  return SpecForTest(model + std::to_string(kSequence), "a100", flags, /*devices=*/1,
                     /*memory=*/int64_t{80} << 30);
}

proto::Recipe Some(const std::string& flags) { return MakeCandidate(MakeRecipe(flags)); }

TEST_CASE("evaluate: tokens are those of a step, of unequal data parts and of rounds of steps") {
  for (const char* flags : {"--mesh=data=3 --micro_batches=2", "--mesh=pipe=2 --micro_batches=4",
                            "--mesh=pipe=2 --micro_batches=2 --schedule=2bw",
                            "--mesh=pipe=3 --micro_batches=4 --schedule=pipedream"}) {
    INFO(flags);
    const SearchSpec spec = SmallSpec("--batch=8 --global_norm=false");
    const proto::Recipe candidate = Some(flags);
    const PlanRequest request = CandidateRequest(spec.given, candidate);
    const absl::StatusOr<Planned> planned = MakePlan(spec.source, request);
    INFO(planned.status().message());
    REQUIRE(planned.ok());
    CHECK((StepsARound(planned->plan) > 1) == (candidate.schedule() != "1f1b"));
    const absl::StatusOr<FoundPlan> found = EvaluatePlan(planned->plan, candidate, request.cluster);
    REQUIRE(found.ok());
    CHECK(found->tokens_a_second * found->step_seconds == Approx(8 * kSequence));
  }
}

TEST_CASE("evaluate: short plans have the largest of unequal data parts") {
  const SearchSpec spec = SmallSpec("--batch=40");
  for (const char* flags : {"--mesh=data=6 --micro_batches=2 --shard=states",
                            "--mesh=pipe=2,data=3 --micro_batches=10 --shard=gradients"}) {
    INFO(flags);
    const proto::Recipe group = Some(flags);
    const int64_t m = group.micro_batches(), data = FindDegree(FindMesh(group), "data");
    CHECK(OneDeviceSpec(spec.given, group).sequences == (40 / m + data - 1) / data);
    const absl::StatusOr<DraftedStep> step = DraftStep(spec, group);
    const absl::StatusOr<ShortCosts> costs =
        MeasureShortPlan(spec.source, spec.given, FindShortSpec(spec.given, group));
    REQUIRE((step.ok() && costs.ok()));
    const std::vector<ClassCounts> slices = ClassesForTest(spec, SlicesForTest(spec, group));
    const absl::StatusOr<GroupCosts> all = GroupCosts::Make(spec.given, group, {*costs}, slices);
    REQUIRE(all.ok());
    CHECK(*all->StepSeconds(slices) == Approx(step->seconds).epsilon(.02));
  }
}

// By formulas and by short plans.
TEST_CASE("evaluate: formulas count the empty slots of queues of experts") {
  proto::Model config = MakeModel("family: 'llama' hidden: 1024 heads: 16 experts: 8");
  config.set_layers(4), config.set_inner(2048), config.set_vocab(4096);
  SearchSpec spec = SmallSpec("--batch=64");
  spec.source = {BuildModel(config), "moe.textproto", {}};
  const ModelShape shape = FindModelShape(spec.source.graph);
  for (const char* flags : {"--mesh=expert=8 --micro_batches=4",
                            "--mesh=data=2,expert=4 --micro_batches=4 --recompute=attention"}) {
    for (const double imbalance : {1.0, 1.25, 2.0}) {
      INFO(flags << ", imbalance " << imbalance);
      const proto::Recipe group = Some(flags);
      spec.given.imbalance = imbalance;
      const auto one = MeasureShortPlan(spec.source, spec.given, OneDeviceSpec(spec.given, group));
      const auto measured =
          MeasureShortPlan(spec.source, spec.given, FindShortSpec(spec.given, group));
      REQUIRE((one.ok() && measured.ok()));
      const ShortCosts likely = FindLikelyCosts(spec.given, shape, group, *one);
      CHECK(likely.last.saved.block == Approx(measured->last.saved.block).epsilon(.02));
      const auto seconds = [](const ShortCosts& costs) {
        return costs.last.spans.forward.block + costs.last.spans.backward.block;
      };
      // Products of a hot device are in short plans alone.
      if (imbalance <= kUsualImbalance)
        CHECK(seconds(likely) == Approx(seconds(*measured)).epsilon(.1));
    }
    // There are no more slots than any routing needs.
    const proto::Recipe group = Some(flags);
    const auto one = MeasureShortPlan(spec.source, spec.given, OneDeviceSpec(spec.given, group));
    const auto backward = [&](double imbalance) {
      spec.given.imbalance = imbalance;
      return FindLikelyCosts(spec.given, shape, group, *one).last.spans.backward.block;
    };
    CHECK(backward(2) > backward(1.25));
    CHECK(backward(100) == backward(4));
  }
}

}  // namespace
}  // namespace oneflow
