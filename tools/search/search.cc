#include "tools/search/search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/compared_text.h"
#include "tools/search/evaluate.h"

namespace oneflow {
namespace {

std::vector<BlockChoice> ListBlockChoices(const Fixes& fixed) {
  const std::vector<int> layers = fixed.stage_layers.value_or(std::vector<int>());
  if (fixed.recompute) return {{*fixed.recompute, layers}};
  return {{"", layers}, {"selective", layers}, {"full", layers}};
}

// Every family compiled with every choice, one after the other.
class Enumeration {
 public:
  Enumeration(const SearchSpec& spec, const SearchOptions& options)
      : spec_(spec), options_(options), start_(std::chrono::steady_clock::now()) {}

  SearchResult Run(const std::vector<PlanFamily>& families) {
    result_.counts.families = static_cast<int64_t>(families.size());
    result_.counts.open = result_.counts.families;
    const std::vector<BlockChoice> choices = ListBlockChoices(spec_.fixed);
    for (const PlanFamily& family : families) {
      if (Seconds() > options_.budget_seconds) break;
      bool compiled = false;
      for (const BlockChoice& choice : choices) compiled |= Try({family, choice});
      result_.counts.refused += compiled ? 0 : 1;
      --result_.counts.open;
      Report(/*now=*/false);
    }
    result_.complete = result_.counts.open == 0;
    if (result_.complete && !result_.found.empty()) {
      result_.bound_seconds = result_.found[0].step_seconds;
    }
    if (result_.found.empty()) FindNearest();
    result_.compared = FindCompared(spec_.given.cluster);
    result_.seconds = Seconds();
    return std::move(result_);
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  void Report(bool now) {
    if (!options_.observe || (!now && Seconds() - reported_ < 1)) return;
    reported_ = Seconds();
    SearchProgress progress{.counts = result_.counts, .seconds = reported_};
    if (!result_.found.empty()) progress.best = result_.found[0];
    options_.observe(progress);
  }

  // False where the candidate cannot be compiled at all.
  bool Try(const Candidate& candidate) {
    const CompileOptions options = CandidateOptions(spec_.given, candidate);
    absl::StatusOr<proto::Plan> plan = Compile(spec_.source, options);
    if (absl::IsResourceExhausted(plan.status())) {
      ++result_.counts.did_not_fit;
      too_large_.push_back(candidate);
      return true;
    }
    if (!plan.ok()) return false;
    const absl::StatusOr<FoundPlan> found = EvaluatePlan(*plan, candidate, options.cluster);
    if (!found.ok()) return false;
    ++result_.counts.compiled;
    const auto at = std::upper_bound(
        result_.found.begin(), result_.found.end(), *found,
        [](const FoundPlan& a, const FoundPlan& b) { return a.step_seconds < b.step_seconds; });
    const bool best = at == result_.found.begin();
    result_.found.insert(at, *found);
    if (result_.found.size() > static_cast<size_t>(options_.top)) result_.found.pop_back();
    if (best) result_.best = *std::move(plan);
    if (best) Report(/*now=*/true);
    return true;
  }

  // The plan that needs least of those that did not fit, as far as time allows.
  void FindNearest() {
    CompileOptions unlimited = spec_.given;
    unlimited.cluster.mutable_device()->set_memory_bytes(0);
    for (const Candidate& candidate : too_large_) {
      if (Seconds() > options_.budget_seconds && result_.nearest) return;
      const absl::StatusOr<proto::Plan> plan =
          Compile(spec_.source, CandidateOptions(unlimited, candidate));
      if (!plan.ok()) continue;
      const absl::StatusOr<FoundPlan> found = EvaluatePlan(*plan, candidate, unlimited.cluster);
      if (!found.ok() || (result_.nearest && result_.nearest->bytes <= found->bytes)) continue;
      result_.nearest = NearestMiss{candidate, found->bytes};
    }
  }

  const SearchSpec& spec_;
  const SearchOptions& options_;
  std::vector<Candidate> too_large_;
  std::chrono::steady_clock::time_point start_;
  double reported_ = 0;
  SearchResult result_;
};

}  // namespace

absl::StatusOr<SearchResult> Search(const SearchSpec& spec, const SearchOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<PlanFamily> families, ListFamilies(spec));
  return Enumeration(spec, options).Run(families);
}

absl::StatusOr<std::string> ExplainWhyNot(const SearchSpec& spec, const Fixes& part,
                                          const SearchResult& best, const SearchOptions& options) {
  SearchSpec narrow = spec;
  narrow.fixed = part;
  ASSIGN_OR_RETURN(const SearchResult result, Search(narrow, options));
  const std::string what = "why not " + ToString(part) + ": ";
  if (result.found.empty()) {
    return absl::StrCat(what, "none of ", result.counts.families, " families of plans fits\n");
  }
  const FoundPlan& found = result.found[0];
  return absl::StrFormat("%sthe best such plan takes %s a step, %.1f %% longer\n  %s\n", what,
                         TimeText(found.step_seconds),
                         100 * (found.step_seconds / best.found[0].step_seconds - 1),
                         CandidateFlags(found.candidate));
}

}  // namespace oneflow
