// No plan takes less than the first rung of the search says, on candidates drawn at random.
// ONEFLOW_TEST_FULL draws as many as the constants of least_costs.cc were read from.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planning/search/draw_for_test.h"
#include "planning/search/least_costs.h"
#include "planning/search/relaxed_mix.h"

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

  void Compare(const proto::Recipe& candidate, const DraftedStep& step, double capacity,
               std::map<std::string, Worst>* worst) {
    const std::string text = Describe(spec_, candidate);
    const std::vector<int> slices = SlicesForTest(spec_, candidate);
    const std::vector<int> blocks = BlocksOfStages(slices, FindMesh(candidate).stages());
    int all = 0;
    for (const int n : blocks) all += n;
    const bool gathers = candidate.recompute().gather();
    for (const bool of_one : {true, false}) {
      INFO(text << (of_one ? ", of one" : ""));
      const auto find_spec = of_one ? &LeastSpecOfOne : &LeastSpec;
      std::vector<ShortCosts> measured;
      for (const std::string_view policy : kPolicies) {
        const proto::Recipe group = WithPolicy(candidate, policy);
        const absl::StatusOr<ShortCosts>& costs = Costs(find_spec(spec_.given, group));
        INFO(costs.status().message());
        REQUIRE(costs.ok());
        if (measured.empty()) {
          const double seconds = FindLeastSeconds(spec_.given, candidate, *costs, all, of_one);
          Check(seconds, step.seconds, of_one ? "formula of one" : "formula", text, worst);
        }
        measured.push_back(LeastOfGroup(spec_.given, candidate, *costs, of_one));
        if (!gathers || of_one) continue;
        const absl::StatusOr<ShortCosts>& one = Costs(LeastSpecOfOne(spec_.given, group));
        REQUIRE(one.ok());
        measured.back() = WithPartsKept(
            measured.back(), LeastOfGroup(spec_.given, candidate, *one, /*of_one=*/true));
      }
      const absl::StatusOr<GroupCosts> costs =
          GroupCosts::Make(spec_.given, candidate, measured, slices, /*fits_orders=*/false);
      REQUIRE(costs.ok());
      // Of these blocks of each stage, and of any where they may be divided otherwise.
      const auto longest = [&](double most) {
        std::optional<double> seconds = RelaxedSeconds(*costs, blocks, most);
        if (candidate.chunks() > 1 || FindMesh(candidate).stages() == 1) return seconds;
        const std::optional<double> other = RelaxedBalance(*costs, all, most);
        if (other) seconds = std::min(seconds.value_or(*other), *other);
        return seconds;
      };
      const auto check = [&](const auto& bound, const std::string& name) {
        const std::string what = name + (of_one ? " of one" : "");
        Check(FindLeastBytes(bound, step.Most()) / (1 + kLeastBytesError), step.Most(),
              what + ", bytes", text, worst);
        const std::optional<double> seconds = bound(capacity);
        if (!seconds) return;
        Check(*seconds * static_cast<double>(candidate.micro_batches()), step.seconds, what, text,
              worst);
      };
      check(longest, "longest stage");
    }
  }

 private:
  // The least capacity for which there is a mix that may fit.
  template <typename Bound>
  static double FindLeastBytes(const Bound& bound, double like) {
    double low = 0, high = 8 * like;
    for (int i = 0; i < 20; ++i) {
      const double middle = (low + high) / 2;
      (bound(middle) ? high : low) = middle;
    }
    return low;
  }

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

TEST_CASE("bounds: no plan takes less than the least costs say") {
  const int want = std::getenv("ONEFLOW_TEST_FULL") == nullptr ? 48 : 2000;
  const char* const seed = std::getenv("ONEFLOW_SEARCH_SEED");
  Dice dice(seed == nullptr ? 1 : std::atoi(seed));
  std::map<std::string, Worst> worst;
  int compared = 0, refused = 0;
  while (compared < want) {
    const SearchSpec spec = DrawSpec({}, &dice);
    const absl::StatusOr<std::vector<proto::Recipe>> groups = ListGroups(spec);
    if (!groups.ok()) continue;  // a batch that is too small for these devices
    Bounds bounds(spec);
    for (int i = 0; i < kCandidatesOfSpec && compared < want; ++i) {
      const proto::Recipe candidate = DrawCandidate(spec, *groups, &dice);
      const absl::StatusOr<DraftedStep> step = DraftStep(spec, candidate);
      const double capacity_share = dice.One<double>({1, 1, 1.05, 1.2});
      if (!step.ok()) {
        ++refused;
        continue;
      }
      bounds.Compare(candidate, *step, step->Most() * capacity_share, &worst);
      ++compared;
    }
  }
  std::printf("%d candidates compared, %d refused\n", compared, refused);
  for (const auto& [what, w] : worst) {
    std::printf("%s: at most %.4f: %s\n", what.c_str(), w.ratio, w.where.c_str());
  }
}

}  // namespace
}  // namespace oneflow
