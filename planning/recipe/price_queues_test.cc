#include "planning/recipe/price_queues.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/compile_for_test.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/annotate_queues.h"
#include "oneflow_core/plan/arenas.h"
#include "planning/recipe/make_plan.h"

namespace oneflow {
namespace {

using Catch::Matchers::StartsWith;

// A dense block, and one with experts.
GraphSource SmallMixture(const std::string& queues = "") {
  return {
      BuildModel(MakeModel("family: 'llama' layers: 2 heads: 2 hidden: 64 inner: 256 sequence: "
                           "128 vocab: 64 experts: 8 expert_bias: true blocks { classes { name: "
                           "'dense' numbers { experts: 0 } } classes { name: 'mixture' } run { "
                           "count: 1 } run { index: 1 } } " +
                           queues)),
      "moe",
      {}};
}

// Of devices that have room for the price, and for half of what the worst routing needs beyond it.
PlanRequest BetweenRequest() {
  PlanRequest request = OptionsFor("expert=4", 8, 1);
  const int64_t worst = MostDeviceBytes(MakePlan(SmallMixture(), request).value().plan);
  request.imbalance = kUsualImbalance;
  const int64_t price = MostDeviceBytes(MakePlan(SmallMixture(), request).value().plan);
  request.cluster.mutable_device()->set_memory_bytes((worst + price) / 2);
  return request;
}

TEST_CASE("the most imbalance fits, and a hundredth more does not") {
  PlanRequest request = BetweenRequest();
  const GraphSource source = SmallMixture();
  const proto::Plan priced = MakePlan(source, request).value().plan;
  CHECK(FindImbalance(priced) == kUsualImbalance);
  const MostImbalance most =
      FindMostImbalance(source, request, priced, {.clock = [] { return 0.0; }}).value();
  CHECK_FALSE(most.at_least);
  CHECK(most.value > 1.25);
  CHECK(most.value < 4);
  CHECK_THAT(most.Text(), StartsWith("imbalance "));
  request.imbalance = most.value;
  CHECK(MakePlan(source, request).ok());
  request.imbalance = most.value + 0.01;
  const absl::Status refused = MakePlan(source, request).status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK_THAT(std::string(ToStd(refused.message())),
             StartsWith("experts priced at an imbalance of "));
  // A model with these slots is the same plan, and needs no price.
  CHECK_THAT(SlotsFlags(most.value, priced), Catch::EndsWith(" --slot_groups=4"));
  request.imbalance = 0;
  const absl::Status worst = MakePlan(source, request).status();
  CHECK_THAT(std::string(ToStd(worst.message())), StartsWith("memory of stage 0: needs "));
  const absl::StatusOr<Planned> bounded =
      MakePlan(SmallMixture(absl::StrCat("slots: ", most.value, " slot_groups: 4")), request);
  REQUIRE(bounded.ok());
  CHECK(FindImbalance(bounded->plan) == 0);
}

TEST_CASE("the most imbalance is at least what was found when the time ends") {
  const PlanRequest request = BetweenRequest();
  const GraphSource source = SmallMixture();
  const proto::Plan priced = MakePlan(source, request).value().plan;
  double now = 0;
  const auto clock = [&now] { return now += 15; };
  const MostImbalance most = FindMostImbalance(source, request, priced, {.clock = clock}).value();
  CHECK(most.at_least);
  CHECK(most.Text() == absl::StrCat("at least imbalance ", most.value));
  // No plan is begun that takes longer than what is left.
  CHECK(FindMostImbalance(source, request, priced, {.clock = [] { return 0.0; }, .a_plan = 21})
            .value()
            .value == kUsualImbalance);
}

}  // namespace
}  // namespace oneflow
