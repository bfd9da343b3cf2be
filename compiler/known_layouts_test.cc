// A search of plans compiles a graph many times: what it spares, and that plans are the same.
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "compiler/compile.h"
#include "compiler/compile_for_test.h"
#include "compiler/sbp/known_layouts.h"
#include "oneflow_core/model/model.h"

namespace oneflow {
namespace {

TEST_CASE("known layouts: other schedules and recompute search no layouts again") {
  PlanRequest options = OptionsFor("pipe=2,data=2,tensor=2", 8);
  options.known_layouts = std::make_shared<KnownLayouts>();
  REQUIRE(Compile(BuildModel(SmallGpt()), "gpt", options).ok());
  const int64_t searches = options.known_layouts->misses();
  CHECK(searches > 0);
  std::vector<PlanRequest> others(4, options);
  others[0].recipe.set_schedule("gpipe");
  others[1].recipe.MergeFrom(MakeRecipe("--recompute=full"));
  others[2].recipe.MergeFrom(MakeRecipe("--recompute=attention"));
  others[3].recipe.MergeFrom(MakeRecipe("--shard=states"));  // another graph
  for (PlanRequest& other : others) {
    const int64_t hits = options.known_layouts->hits();
    const auto with = Compile(BuildModel(SmallGpt()), "gpt", other).value();
    if (!other.recipe.has_shard()) CHECK(options.known_layouts->hits() > hits);
    if (!other.recipe.has_shard()) CHECK(options.known_layouts->misses() == searches);
    other.known_layouts = nullptr;
    CHECK(Compile(BuildModel(SmallGpt()), "gpt", other)->fingerprint() == with.fingerprint());
  }
}

TEST_CASE("known layouts: where they take too much, they are forgotten") {
  KnownLayouts known(/*most_bytes=*/10);
  known.Add("one", {"1234", {}});
  CHECK(known.Find("one").has_value());
  known.Add("two", {"5678", {}});
  CHECK(!known.Find("one").has_value());
  CHECK(known.Find("two")->sbps == "5678");
  known.Add("a key of more bytes than are kept", {});
  CHECK(!known.Find("two").has_value());
  CHECK(known.hits() == 2);
  CHECK(known.misses() == 2);
}

}  // namespace
}  // namespace oneflow
