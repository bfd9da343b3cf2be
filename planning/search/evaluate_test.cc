#include "planning/search/evaluate.h"

#include <catch2/catch.hpp>

#include "oneflow_core/plan/plan_lookup.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/draw_for_test.h"
#include "planning/search/formula.h"

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
    const std::vector<int> slices = SlicesForTest(spec, group);
    const absl::StatusOr<GroupCosts> all = GroupCosts::Make(spec.given, group, {*costs}, slices);
    REQUIRE(all.ok());
    std::vector<PolicyCounts> counts;
    for (const int blocks : slices) counts.push_back({blocks});
    CHECK(*all->StepSeconds(counts) == Approx(step->seconds).epsilon(.02));
  }
}

}  // namespace
}  // namespace oneflow
