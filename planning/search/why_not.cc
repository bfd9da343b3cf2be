#include "planning/search/why_not.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/time_text.h"
#include "planning/search/plan_words.h"

namespace oneflow {
namespace {

void PutFirst(SearchResult part, SearchResult* best) {
  const FoundPlan& plan = part.found[0];
  std::erase_if(best->found,
                [&](const FoundPlan& f) { return IsSame(f.candidate, plan.candidate); });
  best->found.insert(best->found.begin(), plan);
  best->best = std::move(part.best);
  // The part may reach beyond the space.
  const bool bounded = best->found.size() > 1 && best->bound_seconds > 0;
  best->bound_seconds =
      bounded ? std::min(best->bound_seconds, part.bound_seconds) : part.bound_seconds;
  if (best->least_estimate <= 0 ||
      (part.least_estimate > 0 && part.least_estimate < best->least_estimate)) {
    best->least_estimate = part.least_estimate;
  }
  best->estimated.reset();
  best->complete = best->complete && part.complete;
  best->nearest.reset();
}

}  // namespace

std::string ExplainWhyNot(Side part, int64_t capacity, SearchResult* best) {
  const std::string what = absl::StrCat("why not ", part.name, ": ");
  if (!part.result.ok() || part.result->found.empty()) {
    return absl::StrCat(what, NoPlanText(part, capacity), "\n");
  }
  const FoundPlan plan = part.result->found[0];
  const std::string extent = ExtentText(*part.result) + " with it";
  const std::string flags = absl::StrCat("\n  ", CandidateFlags(plan.candidate), "\n");
  if (best->found.empty()) {
    PutFirst(*std::move(part.result), best);
    return absl::StrCat(what, "without it no plan was found; ", extent, " is shown", flags);
  }
  const FoundPlan old = best->found[0];
  if (IsSame(plan.candidate, old.candidate)) return what + "the fastest plan has it" + flags;
  const std::string words = DifferenceText(plan, old, "the fastest");
  if (plan.step_seconds >= old.step_seconds) {
    return absl::StrCat(what, extent, " takes ", TimeText(plan.step_seconds), " a step for ",
                        TimeText(old.step_seconds), "; ", words, flags);
  }
  PutFirst(*std::move(part.result), best);
  return absl::StrCat(what, "no reason was found: ", extent, " is faster than all others: ",
                      DifferenceText(plan, old, "the fastest of these"), flags);
}

}  // namespace oneflow
