#include "planning/fit/fit.h"

#include <catch2/catch.hpp>

#include <memory>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/fit/fit_text.h"
#include "planning/recipe/make_plan.h"

namespace oneflow {
namespace {

using Catch::Contains;

constexpr char kCluster[] = R"(
  name: "four"
  device {
    kind: CPU kernel_threads: 1 peak_flops: 1e13 peak_flops_bf16: 1e14 memory_bandwidth: 1e12
    memory_bytes: 100000000
  }
  level { name: "process" size: 4 latency: 1e-6 bandwidth: 1e11 }
  level { name: "host" latency: 1e-5 bandwidth: 1e10 }
)";

GraphSource Source(int64_t sequence) {
  proto::Model model = MakeModel(
      "family: 'llama' layers: 2 hidden: 64 inner: 128 heads: 4 groups: 4 head_dim: 16 vocab: 256");
  model.set_sequence(sequence);
  GraphSource source{BuildModel(model), "", {}};
  FillBlocks(&source.graph);
  return source;
}

FitQuestion Question(int64_t capacity) {
  FitQuestion question;
  SearchSpec& spec = question.spec;
  spec.source = Source(128);
  spec.devices = 4;
  CHECK(ParseText(kCluster, "cluster", "cluster", &spec.given.cluster).ok());
  SetUsableBytes(capacity, spec.given.cluster.mutable_device());
  spec.given.recipe = MakeRecipe("--device=cpu --precision=bf16 --batch=8");
  CHECK(AddFixes("--fix=", "tensor=1,context=1,micro_batch_size=1", &spec.fixed).ok());
  question.with_sequence = [](int64_t sequence) { return Source(sequence); };
  return question;
}

// Plans of the change's recipe fit, compiled as `oneflow compile` would.
bool Compiles(const FitQuestion& question, const FitChange& change) {
  PlanRequest request = CandidateRequest(question.spec.given, change.plan->candidate);
  request.recipe.set_batch(change.batch);
  return MakePlan(Source(change.sequence), request).ok();
}

TEST_CASE("fit: answers come in order, and what fits compiles") {
  FitQuestion question = Question(8 << 20);
  question.spec.fixed = {};
  question.own = MakeRecipe("--device=cpu --precision=bf16 --batch=8 --mesh=data=4");
  std::vector<FitPart> parts;
  const absl::StatusOr<FitAnswer> answer =
      FindFit(question, {.threads = 2, .search_seconds = .2, .limit_seconds = 5},
              [&](FitPart part, const FitAnswer& known) {
                parts.push_back(part);
                if (part == FitPart::kPlan) CHECK(known.plans.size() + 3 == parts.size() - 1);
              });
  REQUIRE(answer.ok());
  REQUIRE(parts.size() > 4);
  CHECK(parts[0] == FitPart::kOwn);
  CHECK(parts[1] == FitPart::kFits);
  CHECK(parts[2] == FitPart::kBest);
  CHECK(parts[3] == FitPart::kLimits);
  REQUIRE(answer->own);
  CHECK(answer->own->fits);
  CHECK(answer->own->found.step_seconds > 0);
  CHECK(answer->plans.size() <= 3);
  for (const FoundPlan& plan : answer->plans) {
    CHECK(plan.bytes <= 8 << 20);
    CHECK(plan.step_seconds > .95 * answer->plans[0].step_seconds);  // which is the best plan
    CHECK(
        MakePlan(question.spec.source, CandidateRequest(question.spec.given, plan.candidate)).ok());
  }
  REQUIRE(answer->limits.size() == 2);
  for (const FitChange& limit : answer->limits) {
    INFO(limit.what << " " << limit.why);
    REQUIRE(limit.plan);
    CHECK(Compiles(question, limit));
    CHECK(limit.plan->bytes <= 8 << 20);
    CHECK(limit.plan->bytes > 5 << 20);
  }
  CHECK(answer->limits[0].batch > 8);
  CHECK(answer->limits[1].sequence > 128);
}

TEST_CASE("fit: nothing fits") {
  FitQuestion question = Question(2'000'000);
  question.spec.source = Source(2048);
  FitFrame frame{.model = "small",
                 .cluster = "four",
                 .devices = 4,
                 .capacity = 2'000'000,
                 .batch = 8,
                 .sequence = 128,
                 .precision = "bf16"};
  frame.given_flags = [](int64_t batch, int64_t) { return absl::StrCat("--batch=", batch); };
  const absl::StatusOr<FitAnswer> answer =
      FindFit(question, {.threads = 2, .limit_seconds = 5}, [](FitPart, const FitAnswer&) {});
  REQUIRE(answer.ok());
  CHECK(answer->plans.empty());
  REQUIRE(answer->miss);
  CHECK(answer->miss->plan);
  CHECK(answer->miss->bytes > 2'000'000);
  CHECK_THAT(MissLine(frame, *answer->miss),
             Contains("does not fit: small") && Contains("iB too many"));
  REQUIRE(!answer->miss->changes.empty());
  for (const FitChange& change : answer->miss->changes) {
    CHECK(change.plan->bytes <= 2'000'000);
    CHECK(Compiles(question, change));
  }
  CHECK(FitJson(frame, *answer, {})["fits"] == false);
}

TEST_CASE("fit: what is no question") {
  FitQuestion question = Question(8 << 20);
  question.spec.devices = 7;
  question.spec.given.recipe.set_batch(3);
  const absl::Status status = FindFit(question, {}, [](FitPart, const FitAnswer&) {}).status();
  CHECK(ExitCode(status) == 2);
}

TEST_CASE("fit: a question that is stopped at once has no answer") {
  const FitQuestion question = Question(8 << 20);
  const FitOptions options{.stop = [] { return true; }};
  const absl::StatusOr<FitAnswer> answer =
      FindFit(question, options, [](FitPart, const FitAnswer&) {});
  REQUIRE(answer.ok());
  CHECK(answer->plans.empty());
  CHECK(!answer->miss);
}

}  // namespace
}  // namespace oneflow
