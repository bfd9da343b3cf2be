#include "planning/search/side_by_side.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/status.h"
#include "planning/search/why_not.h"

namespace oneflow {
namespace {

using Catch::Contains;

constexpr int64_t kGib = int64_t{1} << 30;

SearchResult Result(const std::string& flags, double seconds, int64_t open = 0) {
  SearchResult result{.complete = open == 0};
  result.counts.groups = 40;
  result.counts.open = result.counts.listed = open;
  FoundPlan plan{.step_seconds = seconds, .bytes = 40 * kGib};
  plan.candidate = MakeCandidate(MakeRecipe(flags));
  result.found = {plan};
  result.best.set_model(flags);
  result.bound_seconds = seconds / 2;
  return result;
}

SearchResult Nothing(int64_t open) {
  SearchResult result{.complete = open == 0};
  result.counts.groups = 40;
  result.counts.open = result.counts.listed = open;
  result.counts.too_large = 40 - open;
  result.nearest = {MakeCandidate(MakeRecipe("--mesh=pipe=4,data=8")), 100 * kGib};
  return result;
}

std::vector<NamedPart> Parts(const std::vector<std::string>& texts) {
  std::vector<NamedPart> parts;
  for (const std::string& text : texts) {
    parts.push_back({text, {}});
    CHECK(AddFixes("--compare=", text, &parts.back().fixes).ok());
  }
  return parts;
}

TEST_CASE("side by side: each part is searched alone, within the time of all") {
  int left = 3;
  const std::vector<Side> sides = SearchSides(
      {}, Parts({"pipe=2", "pipe=4", "pipe=8"}), {.budget_seconds = 30},
      [&](const SearchSpec& spec, const SearchOptions& options) -> absl::StatusOr<SearchResult> {
        CHECK(options.top == 1);
        // No search took any time, so all of it is left for those to come.
        CHECK(options.budget_seconds * left <= 30);
        CHECK(options.budget_seconds * left-- > 25);
        if (spec.fixed.sizes.at("pipe") == 8) return InputError("--devices", "no mesh");
        return Result("--mesh=pipe=" + std::to_string(spec.fixed.sizes.at("pipe")), 1);
      });
  REQUIRE(sides.size() == 3);
  CHECK(sides[1].name == "pipe=4");
  CHECK(CandidateFlags(sides[1].result->found[0].candidate) == "--mesh=pipe=4");
  CHECK_FALSE(sides[2].result.ok());
}

TEST_CASE("side by side: a part without a plan says why in its row") {
  const std::vector<Side> sides = {
      {"pipe=8", InputError("--devices=4", "no mesh", "use 8")},
      {"tensor=64", Nothing(0)},
      {"data=32,shard=weights", Result("--mesh=data=32 --shard=weights", 2)},
      {"tensor=2", Nothing(39)},
      {"tensor=4", Result("--mesh=data=8,tensor=4 --shard=weights", 2.2, 28)}};
  const Report report = DescribeSides({.model = "m", .devices = 32, .capacity = 80 * kGib}, sides);
  CHECK_THAT(
      report.text,
      Contains("\npipe=8\n    --devices=4: no mesh; use 8\n") &&
          Contains("\ntensor=64\n    does not fit 80.00 GiB: none of its 40 plan groups does; the "
                   "nearest to "
                   "fitting needs at least 100.00 GiB: --mesh=pipe=4,data=8\n") &&
          Contains(
              "\n    not found within the time: 1 of 40 plan groups were looked at; the nearest") &&
          Contains("\ndata=32,shard=weights  2.000 s") &&
          Contains("the best of all 40 plan groups\n") &&
          Contains("the best of the 12 of 40 plan groups that were looked at\n") &&
          Contains("data=8,tensor=4 instead of data=32: ") &&
          Contains("10.0 % longer; other bits than data=32,shard=weights\n"));
  const auto& list = report.json["compare"];
  REQUIRE(list.size() == 5);
  CHECK(list[0]["flags"].is_null());
  CHECK(list[2]["choices"] == "data=32,shard=weights");
  CHECK(list[2]["complete"] == true);
  CHECK(list[4]["step_seconds"] == 2.2);
  CHECK(list[4]["bits"] == "B");
}

TEST_CASE("why not: compares within what was searched") {
  const int64_t capacity = 80 * kGib;
  SearchResult best = Result("--mesh=data=32", 2);
  const auto explain = [&](absl::StatusOr<SearchResult> part) {
    return ExplainWhyNot({"tensor=4", std::move(part)}, capacity, &best);
  };
  CHECK(explain(InputError("x", "no mesh")) == "why not tensor=4: x: no mesh\n");
  CHECK_THAT(explain(Nothing(0)), Contains("why not tensor=4: does not fit 80.00 GiB"));
  CHECK_THAT(explain(Nothing(30)),
             Contains("not found within the time") && !Contains("does not fit"));
  CHECK_THAT(
      explain(Result("--mesh=data=8,tensor=4", 2.2, 28)),
      Contains("the best of the 12 of 40 plan groups that were looked at with it takes 2.200 s a "
               "step for 2.000 s; data=8,tensor=4 instead of data=32") &&
          Contains("\n  --mesh=data=8,tensor=4\n"));
  CHECK_THAT(explain(Result("--mesh=data=32", 2)), Contains("the fastest plan has it"));
  CHECK(best.found.size() == 1);

  CHECK_THAT(explain(Result("--mesh=data=8,tensor=4", 1.9)),
             Contains("no reason was found: the best of all 40 plan groups with it is faster"));
  REQUIRE(best.found.size() == 2);
  CHECK(best.found[0].step_seconds == 1.9);
  CHECK(best.best.model() == "--mesh=data=8,tensor=4");
  CHECK(best.bound_seconds == 0.95);

  best = Nothing(3);
  CHECK_THAT(explain(Result("--mesh=data=8,tensor=4", 1.9)),
             Contains("without it no plan was found"));
  CHECK(best.found.size() == 1);
  CHECK_FALSE(best.nearest);
}

}  // namespace
}  // namespace oneflow
