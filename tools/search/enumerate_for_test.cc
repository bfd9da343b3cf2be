#include "tools/search/enumerate_for_test.h"

#include <algorithm>

#include "tools/search/evaluate.h"

namespace oneflow {

std::vector<FoundPlan> EnumerateForTest(const SearchSpec& spec,
                                        const std::vector<BlockChoice>& choices) {
  std::vector<FoundPlan> all;
  const absl::StatusOr<std::vector<PlanFamily>> families = ListFamilies(spec);
  if (!families.ok()) return all;
  for (const PlanFamily& family : *families) {
    for (const BlockChoice& choice : choices) {
      const Candidate candidate{family, choice};
      const CompileOptions options = CandidateOptions(spec.given, candidate);
      const absl::StatusOr<proto::Plan> plan = Compile(spec.source, options);
      if (!plan.ok()) continue;
      absl::StatusOr<FoundPlan> found = EvaluatePlan(*plan, candidate, options.cluster);
      if (found.ok()) all.push_back(*std::move(found));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const FoundPlan& a, const FoundPlan& b) {
    return a.step_seconds < b.step_seconds;
  });
  return all;
}

}  // namespace oneflow
