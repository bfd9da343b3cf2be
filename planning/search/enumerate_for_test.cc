#include "planning/search/enumerate_for_test.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "planning/search/evaluate.h"

namespace oneflow {

namespace {

// The plans of every second group, from one on.
std::vector<FoundPlan> EnumerateHalf(const SearchSpec& spec, size_t from,
                                     const std::vector<proto::Recipe>& groups,
                                     const std::vector<std::string>& choices) {
  std::vector<FoundPlan> half;
  for (size_t i = from; i < groups.size(); i += 2) {
    for (const std::string& choice : choices) {
      proto::Recipe candidate = groups[i];
      *candidate.mutable_recompute() = MakeRecipe("--recompute=" + choice).recompute();
      const PlanRequest options = CandidateRequest(spec.given, candidate);
      const absl::StatusOr<proto::Plan> plan = Compile(spec.source, options);
      if (!plan.ok()) continue;
      absl::StatusOr<FoundPlan> found = EvaluatePlan(*plan, candidate, options.cluster);
      if (found.ok()) half.push_back(*std::move(found));
    }
  }
  return half;
}

}  // namespace

std::vector<FoundPlan> EnumerateForTest(const SearchSpec& given,
                                        const std::vector<std::string>& choices) {
  const absl::StatusOr<std::vector<proto::Recipe>> groups = ListGroups(given);
  if (!groups.ok()) return {};
  SearchSpec spec = given;
  spec.given.known_layouts = std::make_shared<KnownLayouts>();
  std::future<std::vector<FoundPlan>> other =
      std::async(std::launch::async, [&] { return EnumerateHalf(spec, 1, *groups, choices); });
  std::vector<FoundPlan> all = EnumerateHalf(spec, 0, *groups, choices);
  for (FoundPlan& plan : other.get()) all.push_back(std::move(plan));
  std::stable_sort(all.begin(), all.end(), [](const FoundPlan& a, const FoundPlan& b) {
    return a.step_seconds < b.step_seconds;
  });
  return all;
}

}  // namespace oneflow
