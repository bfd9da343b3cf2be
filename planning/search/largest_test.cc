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
    asked->push_back(spec.given.recipe.batch());
    SearchResult result;
    result.counts.groups = 4;
    result.counts.open = open;
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
    CHECK(found.refuted);
    CHECK(asked.size() < 20);
  }
  std::vector<int64_t> asked;
  CHECK(FindLargest(batch, {}, FitsUpTo(3, 2, &asked))->step == 0);
  CHECK_FALSE(FindLargest(batch, {}, FitsUpTo(8, 2, &asked))->refuted);
  Growth limited = batch;
  limited.most = 5;
  const Largest all = FindLargest(limited, {}, FitsUpTo(1000, 0, &asked)).value();
  CHECK(all.step == 5);
  CHECK(all.next == 0);
  CHECK(batch.flags(3) == "--graph=g --batch=12 --clip=0");
  CHECK(batch.make(3)->fixed.recipe.micro_batches() == 1);
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

  Largest found{.step = 40, .next = 41, .refuted = true};
  found.plan.candidate = MakeCandidate(MakeRecipe("--mesh=data=4"));
  const Report report =
      DescribeLargest({.model = "m"}, growths, {{.next = 1}, found, found, found});
  CHECK_THAT(
      report.text,
      Contains("\n    40 layers, ") && Contains("\n    41 layers, ") &&
          Contains(" does not fit\n") &&
          Contains("oneflow compile --graph=largest.textproto --batch=8 --clip=0 --mesh=data=4\n"));
  CHECK(report.json["largest"][0]["flags"].is_null());
  CHECK(report.json["largest"][1]["limit"].get<std::string>().ends_with(" does not fit"));
}

}  // namespace
}  // namespace oneflow
