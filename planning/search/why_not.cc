#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/plan_text.h"
#include "planning/search/search.h"

namespace oneflow {
namespace {

// The parts of a step: kernels, exchanges beside which no kernel runs, and waiting for other
// stages.
struct CostParts {
  double compute = 0, exchange = 0, bubble = 0;
};

CostParts FindParts(const FoundPlan& plan) {
  const double bubble = plan.bubble * plan.step_seconds;
  return {plan.step_seconds - bubble - plan.exposed_exchange, plan.exposed_exchange, bubble};
}

std::string Slower(const FoundPlan& found, const FoundPlan& best) {
  const CostParts a = FindParts(found), b = FindParts(best);
  const auto part = [](const char* name, double seconds) {
    return absl::StrFormat("%s %s%s", name, seconds < 0 ? "-" : "+",
                           TimeText(seconds < 0 ? -seconds : seconds));
  };
  return absl::StrCat(part("compute", a.compute - b.compute), ", ",
                      part("exposed exchange", a.exchange - b.exchange), ", ",
                      part("waiting for other stages", a.bubble - b.bubble));
}

}  // namespace

absl::StatusOr<std::string> ExplainWhyNot(const SearchSpec& spec, const Fixes& part,
                                          const SearchResult& best, const SearchOptions& options) {
  SearchSpec narrow = spec;
  narrow.fixed = part;
  ASSIGN_OR_RETURN(const SearchResult result, Search(narrow, options));
  const std::string what = absl::StrCat("why not ", ToString(part), ": ");
  if (result.found.empty()) {
    std::string text = absl::StrCat(what, "it does not fit");
    if (result.nearest) {
      const int64_t capacity = spec.given.cluster.device().memory_bytes();
      absl::StrAppend(&text, ": the nearest to fitting of ", result.counts.groups,
                      " plan groups needs at least ", BytesText(result.nearest->bytes), " of ",
                      BytesText(capacity), " on its largest stage\n  ",
                      CandidateFlags(result.nearest->candidate));
    }
    return text + "\n";
  }
  const FoundPlan& found = result.found[0];
  const double ratio = found.step_seconds / best.found[0].step_seconds;
  if (ratio <= 1) {
    return absl::StrFormat("%sits best plan is as fast: %s a step\n  %s\n", what,
                           TimeText(found.step_seconds), CandidateFlags(found.candidate));
  }
  return absl::StrFormat(
      "%sits best plan takes %s a step, %.1f %% longer than %s: %s; %s of memory instead of %s\n"
      "  %s\n",
      what, TimeText(found.step_seconds), 100 * (ratio - 1), TimeText(best.found[0].step_seconds),
      Slower(found, best.found[0]), BytesText(found.bytes), BytesText(best.found[0].bytes),
      CandidateFlags(found.candidate));
}

}  // namespace oneflow
