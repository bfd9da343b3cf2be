#include "planning/search/enumerate_for_test.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "planning/search/evaluate.h"

namespace oneflow {

namespace {

// Of every second family, from one on.
std::vector<FoundPlan> EnumerateHalf(const SearchSpec& spec, size_t from,
                                     const std::vector<PlanFamily>& families,
                                     const std::vector<BlockChoice>& choices) {
  std::vector<FoundPlan> half;
  for (size_t i = from; i < families.size(); i += 2) {
    for (const BlockChoice& choice : choices) {
      const Candidate candidate{families[i], choice};
      const PlanRequest options = CandidateOptions(spec.given, candidate);
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
                                        const std::vector<BlockChoice>& choices) {
  const absl::StatusOr<std::vector<PlanFamily>> families = ListFamilies(given);
  if (!families.ok()) return {};
  SearchSpec spec = given;
  spec.given.known_layouts = std::make_shared<KnownLayouts>();
  std::future<std::vector<FoundPlan>> other =
      std::async(std::launch::async, [&] { return EnumerateHalf(spec, 1, *families, choices); });
  std::vector<FoundPlan> all = EnumerateHalf(spec, 0, *families, choices);
  for (FoundPlan& plan : other.get()) all.push_back(std::move(plan));
  std::stable_sort(all.begin(), all.end(), [](const FoundPlan& a, const FoundPlan& b) {
    return a.step_seconds < b.step_seconds;
  });
  return all;
}

}  // namespace oneflow
