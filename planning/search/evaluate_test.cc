#include "planning/search/evaluate.h"

#include <catch2/catch.hpp>

#include "oneflow_core/model/model.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/draw_for_test.h"
#include "planning/search/least_costs.h"

namespace oneflow {
namespace {

constexpr int64_t kSequence = 1024;

SearchSpec SmallSpec(const std::string& given) {
  proto::Model config = MakeModel("family: 'gpt'");
  config.set_layers(6), config.set_heads(12), config.set_hidden(768), config.set_vocab(4096);
  config.set_sequence(kSequence);
  SearchSpec spec{.source = {BuildModel(config), "", {}}};
  spec.given.cluster = ReadClusterForTest("a100");
  spec.given.recipe = MakeRecipe("--device=cuda --precision=bf16 " + given);
  return spec;
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
    const absl::StatusOr<FoundPlan> found = EvaluatePlan(planned->plan, candidate, request.cluster);
    REQUIRE(found.ok());
    CHECK(found->tokens_a_second * found->step_seconds == Approx(8 * kSequence));
  }
}

TEST_CASE("evaluate: short plans have the largest of unequal data parts, and bounds as well") {
  for (const char* flags :
       {"--mesh=data=5 --micro_batches=2 --shard=states", "--mesh=data=7 --micro_batches=5",
        "--mesh=pipe=2,data=3 --micro_batches=10 --shard=gradients",
        "--mesh=data=3,tensor=2 --micro_batches=5 --shard=weights"}) {
    INFO(flags);
    const SearchSpec spec = SmallSpec("--batch=40");
    const proto::Recipe group = Some(flags);
    const int64_t m = group.micro_batches(), data = FindDegree(FindMesh(group), "data");
    const int64_t most = (40 / m + data - 1) / data;
    REQUIRE(most * data * m > 40);
    CHECK(LeastSpec(spec.given, group).sequences == most);
    const absl::StatusOr<DraftedStep> step = DraftStep(spec, group);
    REQUIRE(step.ok());
    const ShortPlanSpec whole = FindShortSpec(spec.given, group);
    const absl::StatusOr<ShortCosts> costs = MeasureShortPlan(spec.source, spec.given, whole);
    REQUIRE(costs.ok());
    const std::vector<int> slices = SlicesForTest(spec, group);
    const absl::StatusOr<GroupCosts> all = GroupCosts::Make(spec.given, group, {*costs}, slices);
    REQUIRE(all.ok());
    std::vector<PolicyCounts> counts;
    for (const int blocks : slices) counts.push_back({blocks});
    const absl::StatusOr<double> said = all->StepSeconds(counts);
    REQUIRE(said.ok());
    CHECK(*said == Approx(step->seconds).epsilon(.02));
    for (const bool of_one : {true, false}) {
      const auto find_spec = of_one ? &LeastSpecOfOne : &LeastSpec;
      const absl::StatusOr<ShortCosts> least =
          MeasureShortPlan(spec.source, spec.given, find_spec(spec.given, group));
      REQUIRE(least.ok());
      const double bound = FindLeastSeconds(spec.given, group, *least, 6, of_one);
      CHECK(bound <= step->seconds);
      CHECK(bound > .6 * step->seconds);
    }
  }
}

}  // namespace
}  // namespace oneflow
