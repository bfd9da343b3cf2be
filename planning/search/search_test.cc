// The ends of a search: nothing fits, its time is over, it is stopped.
#include "planning/search/search.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/search/draw_for_test.h"
#include "planning/search/ladder.h"
#include "planning/search/result_text.h"

namespace oneflow {
namespace {

using Catch::Contains;

SearchSpec MakeSpec(int64_t memory) {
  return SpecForTest("layers: 4 heads: 8 hidden: 512 vocab: 8192 sequence: 512", "a100",
                     "--batch=16", /*devices=*/4, memory);
}

std::string Refusal(const SearchResult& result, int64_t memory) {
  const ResultFrame frame{.model = "gpt", .cluster = "a100", .devices = 4, .capacity = memory};
  const absl::Status status = NothingFound(frame, result);
  CHECK(ExitCode(status) == 2);
  return std::string(ToStd(status.message()));
}

constexpr int64_t kAmple = int64_t{80} << 30;

TEST_CASE("a search: nothing fits is said where a bound of bytes says so of every group") {
  constexpr int64_t kTiny = int64_t{1} << 20;
  const absl::StatusOr<SearchResult> result = Search(MakeSpec(kTiny), {.budget_seconds = 600});
  REQUIRE(result.ok());
  CHECK(result->found.empty());
  CHECK(result->counts.cannot_fit == result->counts.groups);
  CHECK(result->counts.compiled + result->counts.did_not_fit == 0);
  REQUIRE(result->nearest);
  CHECK(result->nearest->bounded);
  CHECK(result->nearest->bytes > kTiny);
  const std::string text = Refusal(*result, kTiny);
  CHECK_THAT(text, Contains("nothing fits 1.00 MiB: every plan group needs more"));
  CHECK_THAT(text, Contains("nearest to it is a plan that needs at least"));
}

TEST_CASE("a search: without time it says what it did not look at, and no word of fitting") {
  const absl::StatusOr<SearchResult> result = Search(MakeSpec(kAmple), {.budget_seconds = 1e-9});
  REQUIRE(result.ok());
  CHECK(result->found.empty());
  CHECK(!result->nearest);
  CHECK(!result->complete);
  const SearchCounts& counts = result->counts;
  CHECK(counts.compiled + counts.short_plans == 0);
  CHECK(counts.unlisted == counts.groups);
  const std::string text = Refusal(*result, kAmple);
  CHECK_THAT(text, Contains("no plan was found yet"));
  CHECK_THAT(text, Contains("plan groups were not looked at"));
  CHECK_THAT(text, !Contains("fits"));
}

TEST_CASE("a search: numbers of blocks that are recomputed may be fixed for each of many slices") {
  SearchSpec spec = MakeSpec(kAmple);
  REQUIRE(AddFixes("--fix=", "pipe=4,recompute=full:1/0/0/0", &spec.fixed).ok());
  const absl::StatusOr<SearchResult> result = Search(spec, {.budget_seconds = 600});
  INFO(result.status());
  REQUIRE(result.ok());
  CHECK(result->complete);
  REQUIRE(!result->found.empty());
  for (const FoundPlan& found : result->found) {
    CHECK(found.candidate.recompute().term(0).counts_size() == 4);
  }
}

TEST_CASE("a search: a plan that just fits is found where short plans say too much of it") {
  struct Case {
    const char *numbers, *blocks, *batch, *fixed;
  };
  // Of the second, orders that are fitted to a mix hold more than those that it is chosen for.
  for (const Case& c : {Case{"", "a(inner=1024),2*b(heads=8 groups=8)", "--batch=16",
                             "data=2,micro_batches=4,shard=weights"},
                        Case{"experts: 4 aux_loss_coeff: 0",
                             "a(experts=0 inner=4096),b(experts=0 inner=1024),c(window=128)",
                             "--batch=8", "pipe=2,micro_batches=8,schedule=zero_bubble"}}) {
    INFO(c.blocks);
    proto::Model said = MakeModel(absl::StrCat(
        "family: 'llama' layers: 3 heads: 8 groups: 4 hidden: 512 head_dim: 64 inner: 1408 "
        "vocab: 4096 sequence: 512 ",
        c.numbers));
    REQUIRE(SetField(*FindRow(ModelRows(), "blocks"), c.blocks, &said).ok());
    SearchSpec spec = SpecForTest("layers: 1", "h100", c.batch, /*devices=*/2, kAmple);
    spec.source.graph = BuildModel(*CompleteModel(said));
    REQUIRE(AddFixes("--fix=", c.fixed, &spec.fixed).ok());
    SearchSpec full = spec;
    REQUIRE(AddFixes("--fix=", "recompute=full", &full.fixed).ok());
    const absl::StatusOr<SearchResult> leanest = Search(full, {.budget_seconds = 600});
    REQUIRE((leanest.ok() && leanest->found.size() == 1));
    const int64_t bytes = leanest->found[0].bytes;
    SetUsableBytes(bytes, spec.given.cluster.mutable_device());
    const absl::StatusOr<SearchResult> result = Search(spec, {.budget_seconds = 600});
    REQUIRE((result.ok() && !result->found.empty()));
    CHECK(result->found[0].bytes <= bytes);
    CHECK(result->found[0].step_seconds <= leanest->found[0].step_seconds);
  }
}

TEST_CASE("a search: what short plans may say too much of bytes depends on the classes of blocks") {
  CHECK(ShortBytesError({.class_of = {0, 0, 0}}) == .03);
  CHECK(ShortBytesError({.class_of = {0, 1, 0}}) == .25);
}

TEST_CASE("a search: what a tied table exchanges in an update is no transfer between stages") {
  const SearchSpec spec = SpecForTest(
      "layers: 4 heads: 8 hidden: 512 vocab: 50257 sequence: 512 tied: true", "a100", "--batch=16",
      /*devices=*/2, kAmple);
  const auto find_link = [&](const std::string& micro_batches) {
    const proto::Recipe group =
        MakeCandidate(MakeRecipe("--mesh=pipe=2 --micro_batches=" + micro_batches));
    const absl::StatusOr<ShortCosts> costs =
        MeasureShortPlan(spec.source, spec.given, FindShortSpec(spec.given, group));
    REQUIRE(costs.ok());
    return costs->link;
  };
  const double link = find_link("2");
  CHECK(link > 0);
  CHECK(find_link("1") < 2.1 * link);  // of twice as many sequences
}

TEST_CASE("a search: one that is stopped has what it found until then") {
  std::atomic<bool> stop = false;
  SearchOptions options{.budget_seconds = 600, .threads = 2};
  int estimates = 0;
  options.observe = [&](const SearchProgress& progress) {
    if (progress.estimated) {
      ++estimates;
      CHECK(progress.estimated->bytes_error == .03);
    }
    if (progress.best) stop = true;
  };
  options.stop = [&] { return stop.load(); };
  const absl::StatusOr<SearchResult> result = Search(MakeSpec(kAmple), options);
  REQUIRE(result.ok());
  CHECK(estimates > 0);
  CHECK(result->found.size() == 1);
  CHECK(!result->complete);
  CHECK(result->counts.open > 0);
  REQUIRE((result->cpu_until_estimate && result->cpu_until_plan));
  CHECK(*result->cpu_until_estimate <= *result->cpu_until_plan);
}

}  // namespace
}  // namespace oneflow
