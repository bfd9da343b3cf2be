// What does not fit is refused with what does: which changes are tried, in which order, and for how
// long. The clock is the test's.
#include "planning/recipe/changes_that_fit.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "compiler/compile_for_test.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

constexpr auto kStill = [] { return 0.0; };

struct Refusal {
  std::string text;                // of the refusal
  std::vector<std::string> tried;  // as reported
};

Refusal Refuse(const proto::Graph& graph, PlanRequest request, int64_t memory,
               LookingTime time = {.clock = kStill}) {
  request.cluster.mutable_device()->set_memory_bytes(memory);
  const GraphSource source{graph, "gpt", {}};
  const absl::Status refused = MakePlan(source, request).status();
  REQUIRE(absl::IsResourceExhausted(refused));
  Refusal refusal;
  const absl::Status status =
      WithChangesThatFit(refused, source, request, time, [&](const std::string& sentence) {
        refusal.tried.push_back(sentence.substr(sentence.find("--")));
      });
  CHECK(absl::IsResourceExhausted(status));
  refusal.text = std::string(ToStd(status.message()));
  return refusal;
}

int64_t Bytes(const proto::Graph& graph, PlanRequest request, const std::string& flags) {
  REQUIRE(SetFields(RecipeRows(), flags, &request.recipe).ok());
  return MostDeviceBytes(MakePlan({graph, "gpt", {}}, request)->plan);
}

TEST_CASE("a stream of f32 and activations that are gathered are refused with what saves them") {
  const proto::Graph graph =
      BuildModel(MakeModel("family: 'gpt' layers: 4 heads: 4 hidden: 64 sequence: 64 vocab: 64"));
  const PlanRequest request =
      OptionsFor("tensor=2", 8, 1, "1f1b", "--precision=bf16 --residual=f32 --sequence_parallel");
  const int64_t both = Bytes(graph, request, "--residual=bf16 --recompute=none,gather");
  CHECK(both < Bytes(graph, request, "--residual=bf16"));
  CHECK(both <= Bytes(graph, request, "--recompute=none,gather"));
  const Refusal refusal = Refuse(graph, request, both);
  CHECK_THAT(refusal.text, Contains("\n  --recompute=none,gather --residual=bf16: ") &&
                               Contains("(sums of the residual stream rounded)") &&
                               !Contains("\n  --residual=bf16: ") && !Contains("not tried"));
  CHECK(std::vector(refusal.tried.begin(), refusal.tried.begin() + 3) ==
        std::vector<std::string>{"--residual=bf16", "--recompute=none,gather",
                                 "--recompute=none,gather --residual=bf16"});
  CHECK_THAT(refusal.tried, Catch::VectorContains(std::string("--recompute=full,gather")));
  // By default the stream is bf16, and on one device nothing is gathered.
  const auto tried = Refuse(graph, OptionsFor("", 8, 1, "1f1b", "--precision=bf16"), 1000).tried;
  CHECK(tried.front() == "--loss_pieces=auto");
  CHECK_THAT(tried, Catch::VectorContains(std::string("--recompute=full")));
}

TEST_CASE("a plan that fits if its gradients were bf16 is told so, with what they would save") {
  const proto::Graph graph =
      BuildModel(MakeModel("family: 'gpt' layers: 4 heads: 4 hidden: 64 sequence: 64 vocab: 64"));
  const PlanRequest request = OptionsFor("data=2", 32, 4, "1f1b", "--precision=bf16");
  const proto::Plan plan = MakePlan({graph, "gpt", {}}, request)->plan;
  int64_t saved = 0;  // two bytes of each parameter
  for (const proto::Register& r : FindProgram(plan, "train")->register_()) {
    if (r.fill_mode() == proto::Register::ACCUMULATE && r.dtype() == proto::F32) {
      saved += r.slot_bytes() / 2;
    }
  }
  CHECK(saved >= 2 * ParameterCount(plan));
  CHECK(saved < 2.1 * static_cast<double>(ParameterCount(plan)));
  const int64_t needed = LeastDeviceBytes(plan);
  const std::string saves = "\ngradients in bf16, as NeMo keeps them, would save " +
                            SizeText(static_cast<double>(saved)) + " and fit in ";
  CHECK_THAT(Refuse(graph, request, needed - 1).text, Contains(saves) && Contains("not built"));
  CHECK_THAT(Refuse(graph, request, needed - saved).text, Contains(saves));
  CHECK_THAT(Refuse(graph, request, needed - saved - 1).text, !Contains("as NeMo"));
  // One micro-batch has nothing to sum.
  const PlanRequest one = OptionsFor("data=2", 8, 1, "1f1b", "--precision=bf16");
  const int64_t least = LeastDeviceBytes(MakePlan({graph, "gpt", {}}, one)->plan);
  CHECK_THAT(Refuse(graph, one, least - 1).text, !Contains("as NeMo"));
}

TEST_CASE("where no change is enough, the fewest that are enough together") {
  const proto::Graph graph = BuildModel(SmallGpt(4));
  const PlanRequest request = OptionsFor("data=2", 32, 4);
  const int64_t two =
      Bytes(graph, request, "--loss_pieces=auto --shard=gradients --recompute=full");
  const Refusal refusal = Refuse(graph, request, two);
  CHECK_THAT(refusal.text, Contains("\n  --shard=gradients --recompute=full --loss_pieces=auto: "));
  CHECK_THAT(Refuse(graph, request, 1000).text, Contains("no flag that was tried makes it fit"));
}

TEST_CASE("nothing is begun for which no time is left, and what was left out is named") {
  const proto::Graph graph = BuildModel(SmallGpt(4));
  const PlanRequest request = OptionsFor("data=2", 32, 4);
  const int64_t memory = Bytes(graph, request, "--shard=weights");
  CHECK_THAT(Refuse(graph, request, memory).text, Contains("\n  --shard=weights: "));
  // Each look at the clock takes 30 seconds: two drafts are made in any case.
  double now = 0;
  const Refusal none = Refuse(graph, request, memory, {.clock = [&] { return now += 30; }});
  CHECK(none.tried == std::vector<std::string>{"--loss_pieces=auto", "--shard=states"});
  CHECK_THAT(
      none.text,
      Contains("no flag that was tried makes it fit; use more devices, or a batch, "
               "a sequence or layers that `oneflow search --largest` finds to fit\nnot tried "
               "within 20 s of CPU time: --shard=gradients; "));
  // There is no time for a plan of 19 seconds: drafts alone.
  now = 0;
  const Refusal drafts =
      Refuse(graph, request, memory, {.clock = [&] { return now += 0.4; }, .a_plan = 19});
  CHECK_THAT(drafts.text, Contains("\n  --shard=weights: 0.00 GiB or more by its draft, not "
                                   "compiled (sums in another order)"));
  // One second for each look: some are tried, and the first of them.
  now = 0;
  const Refusal some = Refuse(graph, request, 1000, {.clock = [&] { return now += 1; }});
  const Refusal all = Refuse(graph, request, 1000);
  REQUIRE(!some.tried.empty());
  REQUIRE(some.tried.size() < all.tried.size());
  CHECK(some.tried[0] == all.tried[0]);
  CHECK_THAT(some.text, Contains("not tried within 20 s") && Contains("--update_on=host"));
}

TEST_CASE("a plan that does not fit names the layouts that do, which are then stated") {
  const proto::Graph graph = BuildModel(SmallGpt(3));
  PlanRequest slow = OptionsFor("tensor=2", 16, 4, "1f1b", "--state_layouts");
  const proto::Graph usual = MakePlan({graph, "gpt", {}}, slow)->plan.graph();
  // Links so slow that nearly nothing is worth sending.
  slow.cluster.mutable_device()->set_kind(proto::Device::CUDA);  // CPUs share a memory
  proto::Level* level = slow.cluster.add_level();
  level->set_size(8);
  level->set_latency(1e-9);
  level->set_bandwidth(1e4);
  const int64_t least = MostDeviceBytes(MakePlan({usual, "gpt", {}}, slow)->plan);
  REQUIRE(MostDeviceBytes(MakePlan({graph, "gpt", {}}, slow)->plan) > least);
  CHECK_THAT(Refuse(graph, slow, least).text,
             Contains("too many") && Contains("the layouts for an unknown cluster: compile "
                                              "without --cluster and with --layouts_out=FILE"));
  slow.cluster.mutable_device()->set_memory_bytes(least);
  CHECK(MakePlan({usual, "gpt", {}}, slow).ok());
  CHECK_THAT(Refuse(graph, slow, least / 2).text,
             Contains("too many") && !Contains("unknown cluster"));
}

}  // namespace
}  // namespace oneflow
