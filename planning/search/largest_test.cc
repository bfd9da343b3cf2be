#include "planning/search/largest.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"

namespace oneflow {
namespace {

using Catch::Contains;

// A search in which plans of `most` sequences a step fit.
SearchFunction FitsUpTo(int64_t most, int64_t open, std::vector<int64_t>* asked) {
  return [=](const SearchSpec& spec, const SearchOptions& options) -> absl::StatusOr<SearchResult> {
    CHECK(options.first_fit);
    CHECK(options.budget_seconds > 0);
    asked->push_back(spec.given.recipe.batch());
    SearchResult result;
    result.counts.groups = 4;
    result.counts.open = open;
    result.counts.cannot_fit = 4 - open;
    if (spec.given.recipe.batch() > most) return result;
    FoundPlan plan{.step_seconds = static_cast<double>(spec.given.recipe.batch())};
    plan.candidate = MakeCandidate(MakeRecipe("--mesh=data=4"));
    result.found = {plan};
    return result;
  };
}

SearchSpec Spec(const proto::Graph& graph) {
  SearchSpec spec;
  spec.devices = 4;
  spec.source.graph = graph;
  return spec;
}

TEST_CASE("largest: doubling, then bisection to a sixteenth") {
  const SearchSpec spec = Spec({});
  const std::vector<Growth> growths = ListGrowths(spec, {}, {"--graph=g", "--batch=8", "--clip=0"});
  const Growth& batch = growths.back();
  CHECK(growths.size() == 4);
  CHECK_THAT(growths[0].unknown, Contains("numbers of the model are not known"));
  for (int64_t most : {4, 8, 24, 100, 4000, 4100}) {
    std::vector<int64_t> asked;
    const Largest found =
        FindLargest(batch, {.budget_seconds = 100}, FitsUpTo(most, 0, &asked)).value();
    INFO(most);
    CHECK(found.step * 4 <= most);
    CHECK(found.next * 4 > most);
    CHECK(found.next - found.step <= std::max<int64_t>(1, found.step / 16));
    CHECK(found.plan.step_seconds == static_cast<double>(found.step * 4));
    CHECK(found.compiled);
    CHECK(found.why == " does not fit, as a bound of bytes says");
    CHECK(asked.size() < 20);
  }
  std::vector<int64_t> asked;
  CHECK(FindLargest(batch, {}, FitsUpTo(3, 2, &asked))->step == 0);
  CHECK(FindLargest(batch, {}, FitsUpTo(8, 2, &asked))->why ==
        ": no plan was found within the time");
  Growth limited = batch;
  limited.most = 5;
  const Largest all = FindLargest(limited, {}, FitsUpTo(1000, 0, &asked)).value();
  CHECK(all.step == 5);
  CHECK(all.next == 0);
  CHECK(all.why == "no larger one was tried");
  CHECK(batch.flags(3) == "--graph=g --batch=12 --clip=0");
  CHECK(batch.make(3)->fixed.recipe.micro_batches() == 1);
}

// A search whose time is over before a plan is compiled: of `most` sequences short plans fit.
// `compiles`: with more than half of 100 seconds, it ends by itself.
SearchFunction EstimatesUpTo(int64_t most, std::vector<int64_t>* asked,
                             const SearchFunction& compiles = {}) {
  return [=](const SearchSpec& spec, const SearchOptions& options) -> absl::StatusOr<SearchResult> {
    if (compiles && options.budget_seconds > 50) return compiles(spec, options);
    asked->push_back(spec.given.recipe.batch());
    SearchResult result;
    result.counts.groups = 4;
    result.counts.open = 2;
    if (spec.given.recipe.batch() > most) return result;
    result.estimated = {MakeCandidate(MakeRecipe("--mesh=data=4")), 2.5, 3 << 20, .03};
    return result;
  };
}

TEST_CASE("largest: a size fits by an estimate where only the time ended") {
  const SearchSpec spec = Spec({});
  const std::vector<Growth> growths = ListGrowths(spec, {}, {"--graph=g", "", ""});
  const Growth& batch = growths.back();
  const SearchOptions options{.budget_seconds = 100};
  std::vector<int64_t> asked, compiled;
  const Largest found = FindLargest(batch, options, EstimatesUpTo(24, &asked)).value();
  CHECK(found.step == 6);
  CHECK(found.next == 7);
  CHECK(found.why == ": no plan was found within the time");
  CHECK_FALSE(found.compiled);
  CHECK(asked == std::vector<int64_t>{4, 8, 16, 32, 24, 28, 24});
  const auto describe = [&](const Largest& largest) {
    return DescribeLargest({.model = "m"}, growths, {{}, {}, {}, largest});
  };
  const Report report = describe(found);
  CHECK_THAT(report.text,
             Contains("estimated, not compiled: 2.5") && Contains("3.00 MiB of memory (± 3 %)"));
  CHECK(report.json["largest"][3]["compiled"] == false);
  CHECK(report.json["largest"][3]["bytes_a_device"] == 3 << 20);
  CHECK_THAT(report.json["largest"][3]["flags"].get<std::string>(), Contains("--mesh=data=4"));
  // With the rest of the time it is compiled, or turns out not to fit.
  const auto with_rest = [&](int64_t most) {
    return FindLargest(batch, options, EstimatesUpTo(24, &asked, FitsUpTo(most, 0, &compiled)));
  };
  CHECK(with_rest(100)->step == 6);
  CHECK(with_rest(100)->compiled);
  CHECK(compiled.back() == 24);
  const Largest none = with_rest(20).value();
  CHECK(none.step == 0);
  CHECK(none.next == 6);
  CHECK_THAT(describe(none).text, Contains("24 sequences, 6 a device does not fit"));
}

TEST_CASE("largest: nothing is searched when the time is over") {
  const SearchSpec spec = Spec({});
  const Growth batch = ListGrowths(spec, {}, {}).back();
  std::vector<int64_t> asked;
  const Largest none = FindLargest(batch, {.budget_seconds = 0}, FitsUpTo(1000, 0, &asked)).value();
  CHECK(asked.empty());
  CHECK(none.step == 0);
  CHECK(none.why == "not tried, since the time was over");
  SearchOptions stopped{.budget_seconds = 100};
  stopped.stop = [&] { return asked.size() >= 3; };
  const Largest some = FindLargest(batch, stopped, FitsUpTo(1000, 0, &asked)).value();
  CHECK(asked.size() == 3);
  CHECK(some.step == 4);
  CHECK(some.next == 0);
  CHECK(some.why == "no larger one was tried, since the time was over");
  // An estimate is not compiled either, and bisection ends.
  asked.clear();
  stopped.stop = [&] { return asked.size() >= 5; };
  const Largest wide = FindLargest(batch, stopped, EstimatesUpTo(60, &asked)).value();
  CHECK(asked.size() == 5);
  CHECK(wide.step == 8);
  CHECK(wide.next == 16);
  CHECK_FALSE(wide.compiled);
}

TEST_CASE("largest: why a size has no plan, and what cannot be answered") {
  SearchSpec spec = Spec({});
  const Growth batch = ListGrowths(spec, {}, {}).back();
  const auto why = [&](const absl::StatusOr<SearchResult>& result) {
    return FindLargest(batch, {}, [&](const auto&...) { return result; })->why;
  };
  SearchResult result;
  CHECK(why(result) == ": no plan was found");
  result.counts = {.groups = 4, .refused = 1, .cannot_fit = 3};
  CHECK(why(result) == ": no plan was found");
  result.counts.open = 1;
  CHECK(why(result) == ": no plan was found within the time");
  result.counts = {.groups = 4, .cannot_fit = 4};
  CHECK(why(result) == " does not fit, as a bound of bytes says");
  CHECK(why(InputError("--devices=4", "no mesh", "use 8")) == ": --devices=4: no mesh; use 8");

  REQUIRE(AddFixes("--fix=", "micro_batches=4", &spec.fixed).ok());
  CHECK_THAT(ListGrowths(spec, {}, {}).back().unknown,
             Contains("one micro-batch, and 4 are fixed: leave micro_batches out"));
}

TEST_CASE("largest: presets, layers and sequences of a known model") {
  proto::Model said;
  said.set_family("gpt");
  said.set_preset("gpt2-124m");
  said.set_sequence(512);
  const proto::Graph graph = BuildModel(CompleteModel(said).value());
  const proto::Model known = FindPresetModel(graph);
  CHECK(known.preset() == "gpt2-124m");
  CHECK(known.sequence() == 512);
  CHECK_FALSE(FindPresetModel(BuildModel(MakeModel("family: 'gpt' layers: 2"))).has_family());

  const SearchSpec spec = Spec(graph);
  const std::vector<Growth> growths =
      ListGrowths(spec, known, {"--graph=g", "--batch=8", "--clip=0"});
  REQUIRE(growths.size() == 4);
  CHECK_THAT(growths[0].name(growths[0].most), Contains("gpt3-175b, 175 B parameters"));
  CHECK(growths[0].write(3) ==
        "oneflow model gpt --preset=gpt2-124m --sequence=512 --out=largest.textproto");
  CHECK(growths[1].write(40) ==
        "oneflow model gpt --preset=gpt2-124m --layers=40 --sequence=512 --out=largest.textproto");
  CHECK(growths[1].flags(40) == "--graph=largest.textproto --batch=8 --clip=0");
  CHECK(growths[2].name(3) == "sequences of 1,536");
  CHECK(growths[2].make(3)->source.graph.op_size() == graph.op_size());

  Largest found{.step = 40, .next = 41, .why = " does not fit"};
  found.plan.candidate = MakeCandidate(MakeRecipe("--mesh=data=4"));
  const Report report = DescribeLargest({.model = "m"}, growths,
                                        {{.next = 1, .why = " does not fit"}, found, found, found});
  CHECK_THAT(
      report.text,
      Contains("\n    40 layers, ") && Contains("\n    41 layers, ") &&
          Contains(" does not fit\n") &&
          Contains("oneflow compile --graph=largest.textproto --batch=8 --clip=0 --mesh=data=4\n"));
  CHECK(report.json["largest"][0]["flags"].is_null());
  CHECK(report.json["largest"][1]["limit"].get<std::string>().ends_with(" does not fit"));

  // The rows that are priced are named, and those that are only estimated say so.
  const Largest none{.next = 1};
  Largest priced = found, guessed = found;
  priced.plan.imbalance = guessed.plan.imbalance = 2;
  guessed.compiled = false;
  guessed.bytes_error = .06;
  const ResultFrame frame{.model = "m", .imbalance = 2};
  const std::string text = DescribeLargest(frame, growths, {none, priced, guessed, found}).text;
  CHECK_THAT(text,
             Contains("m on 0 devices of , experts priced at an imbalance of 2\n") &&
                 Contains("\nexperts (layers): time and memory are priced at an imbalance of 2;") &&
                 Contains("(± 6 %), experts priced") && Contains(" --mesh=data=4 --imbalance=2\n"));
  CHECK_THAT(DescribeLargest(frame, growths, {none, found, found, found}).text,
             !Contains("imbalance"));
}

}  // namespace
}  // namespace oneflow
