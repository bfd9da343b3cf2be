// No plan takes or needs less than formulas say, on candidates drawn at random.
// ONEFLOW_TEST_FULL draws as many as the constants of formula.cc were read from.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/graph/block_classes.h"
#include "planning/search/draw_for_test.h"
#include "planning/search/formula.h"

namespace oneflow {
namespace {

constexpr int kCandidatesOfSpec = 8;

// What bounds say relative to what a plan takes, at most.
struct Worst {
  double ratio = 0;
  std::string where;
  void Add(double next, const std::string& text) {
    if (next > ratio) ratio = next, where = text;
  }
};

class Bounds {
 public:
  explicit Bounds(const SearchSpec& spec) : spec_(spec) {}

  void Compare(const proto::Recipe& candidate, const DraftedStep& step,
               std::map<std::string, Worst>* worst) {
    const std::string text = Describe(spec_, candidate);
    std::vector<const ShortCosts*> one;
    const ClassCounts blocks = FindBlockClasses(spec_.source.graph).CountBlocks();
    for (int c = 0; c < std::ssize(blocks); ++c) {
      for (const std::string_view policy : kPolicies) {
        const absl::StatusOr<ShortCosts>& costs =
            Costs(OneDeviceSpec(spec_.given, WithPolicy(candidate, policy), c));
        INFO(text << costs.status().message());
        REQUIRE(costs.ok());
        one.push_back(&*costs);
      }
    }
    Check(FindLeastSeconds(spec_.given, candidate, one, blocks), step.seconds, "seconds", text,
          worst);
    Check(FindLeastBytes(spec_.given, candidate, one, blocks), step.Most(), "bytes", text, worst);
  }

 private:
  static void Check(double bound, double known, const std::string& what, const std::string& text,
                    std::map<std::string, Worst>* worst) {
    INFO(what);
    CHECK(bound <= known);
    if (bound > known) std::printf("%s: %.4f: %s\n", what.c_str(), bound / known, text.c_str());
    (*worst)[what].Add(bound / known, text);
  }

  const absl::StatusOr<ShortCosts>& Costs(const ShortPlanSpec& spec) {
    const std::string key = ShortPlanKey(spec_.given, spec);
    const auto known = costs_.find(key);
    if (known != costs_.end()) return known->second;
    return costs_.emplace(key, MeasureShortPlan(spec_.source, spec_.given, spec)).first->second;
  }

  const SearchSpec& spec_;
  std::map<std::string, absl::StatusOr<ShortCosts>> costs_;
};

TEST_CASE("bounds: casts of weights that are gathered for each use are not kept") {
  const SearchSpec spec =
      SpecForTest("layers: 6 heads: 16 hidden: 1024 vocab: 1024 sequence: 64", "h100", "--batch=8",
                  /*devices=*/8, /*memory=*/0);
  for (const char* flags : {"--mesh=data=8 --shard=weights --recompute=full",
                            "--mesh=data=8 --shard=weights", "--mesh=data=8 --shard=states"}) {
    const proto::Recipe candidate = MakeCandidate(MakeRecipe(flags));
    const absl::StatusOr<DraftedStep> step = DraftStep(spec, candidate);
    REQUIRE(step.ok());
    std::map<std::string, Worst> worst;
    Bounds(spec).Compare(candidate, *step, &worst);
    CHECK(worst["bytes"].ratio > 0.4);
  }
}

void CompareDrawn(const DrawnRange& range, int want) {
  const char* const seed = std::getenv("ONEFLOW_SEARCH_SEED");
  Dice dice(seed == nullptr ? 1 : std::atoi(seed));
  std::map<std::string, Worst> worst;
  int compared = 0, refused = 0;
  while (compared < want) {
    const SearchSpec spec = DrawSpec(range, &dice);
    const absl::StatusOr<std::vector<proto::Recipe>> groups = ListGroups(spec);
    if (!groups.ok()) continue;  // a batch that is too small for these devices
    Bounds bounds(spec);
    for (int i = 0; i < kCandidatesOfSpec && compared < want; ++i) {
      const proto::Recipe candidate = DrawCandidate(spec, *groups, &dice);
      const absl::StatusOr<DraftedStep> step = DraftStep(spec, candidate);
      if (!step.ok()) {
        ++refused;
        continue;
      }
      bounds.Compare(candidate, *step, &worst);
      ++compared;
    }
  }
  std::printf("%d candidates compared, %d refused\n", compared, refused);
  for (const auto& [what, w] : worst) {
    std::printf("%s: at most %.4f: %s\n", what.c_str(), w.ratio, w.where.c_str());
  }
}

TEST_CASE("bounds: no plan takes less than the least costs say") {
  CompareDrawn({}, std::getenv("ONEFLOW_TEST_FULL") == nullptr ? 48 : 2000);
}

TEST_CASE("bounds: nor does one of a model whose blocks differ") {
  CompareDrawn({.least_blocks = 2, .patterned = true},
               std::getenv("ONEFLOW_TEST_FULL") == nullptr ? 24 : 1000);
}

}  // namespace
}  // namespace oneflow
