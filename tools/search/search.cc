// Best first: the family with the least bound climbs the ladder, until what has the least bound is
// a plan that was compiled. Next: tools/search/ladder.h, the rungs.
#include "tools/search/search.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "compiler/compile.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/print/compared_text.h"
#include "tools/search/evaluate.h"
#include "tools/search/ladder.h"

namespace oneflow {
namespace {

// Climbs between two compilations of what looks best, if bounds ask for none.
constexpr int kDive = 8;
// Climbs after which the best that is known well enough is compiled, whatever may still be better.
constexpr int kPatience = 48;
// Of layouts that were chosen for equal graphs: plans of a family and its neighbours have many.
constexpr size_t kMostKnownBytes = size_t{256} << 20;

class Searcher {
 public:
  Searcher(const SearchSpec& spec, const SearchOptions& options, std::vector<PlanFamily> families)
      : spec_(spec),
        options_(options),
        ladder_(spec, std::move(families)),
        states_(ladder_.size()),
        start_(std::chrono::steady_clock::now()) {
    result_.counts.families = static_cast<int64_t>(states_.size());
  }

  absl::StatusOr<SearchResult> Run() && {
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i] = ladder_.Start(i, &result_.counts.short_plans);
      queue_.insert({states_[i].bound, i});
    }
    // A search that has found nothing yet goes on for as long again.
    while (Seconds() < options_.budget_seconds * (result_.found.empty() ? 2 : 1)) {
      const std::vector<size_t> jobs = NextJobs();
      if (jobs.empty()) break;
      std::vector<Finding> findings(jobs.size());
      std::vector<std::thread> threads;
      for (size_t j = 1; j < jobs.size(); ++j) {
        threads.emplace_back([&, j] { findings[j] = ladder_.Climb(jobs[j], states_[jobs[j]]); });
      }
      findings[0] = ladder_.Climb(jobs[0], states_[jobs[0]]);
      for (std::thread& thread : threads) thread.join();
      for (size_t j = 0; j < jobs.size(); ++j) Apply(jobs[j], std::move(findings[j]));
      Report(/*now=*/false);
    }
    if (result_.found.empty() && !result_.nearest && !refusal_.ok()) return refusal_;
    OrderAxes();
    return Finish();
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  double Best() const { return result_.found.empty() ? kNever : result_.found[0].step_seconds; }
  bool Wants() const { return std::ssize(result_.found) < options_.top; }

  // The families with the least bounds. Now and then, what looks best: a good plan makes others
  // too slow. At last, what fills the table. The jobs depend on nothing but what was found, and
  // their number: with the same number of threads a search finds the same.
  std::vector<size_t> NextJobs() const {
    std::vector<size_t> jobs;
    const auto add = [&](size_t i) {
      if (std::find(jobs.begin(), jobs.end(), i) == jobs.end()) jobs.push_back(i);
    };
    if (since_compiled_ >= kPatience) {
      if (const size_t i = FindLikely(Rung::kShort, Best(), jobs); i < states_.size()) add(i);
    } else if (result_.found.empty() || since_compiled_ >= kDive) {
      if (const size_t i = FindLikely(Rung::kListed, Best(), jobs); i < states_.size()) add(i);
    }
    for (const auto& [bound, i] : queue_) {
      if (std::ssize(jobs) >= options_.threads || bound >= Best()) break;
      add(i);
    }
    while (std::ssize(jobs) < options_.threads && Wants()) {
      const size_t i = FindLikely(Rung::kShort, kNever, jobs);
      if (i == states_.size()) break;
      add(i);
    }
    return jobs;
  }

  // The family that is likely to be fastest, from a rung on; size() where none is below `most`.
  size_t FindLikely(Rung from, double most, const std::vector<size_t>& but) const {
    size_t likely = states_.size();
    for (const auto& [bound, i] : queue_) {
      const FamilyState& state = states_[i];
      if (state.rung < from || state.likely >= most) continue;
      if (std::find(but.begin(), but.end(), i) != but.end()) continue;
      if (likely == states_.size() || state.likely < states_[likely].likely) likely = i;
    }
    return likely;
  }

  void Apply(size_t i, Finding finding) {
    queue_.erase({states_[i].bound, i});
    since_compiled_ = states_[i].rung == Rung::kShort ? 0 : since_compiled_ + 1;
    SearchCounts& counts = result_.counts;
    counts.short_plans += finding.short_plans;
    if (finding.did_not_fit) ++counts.did_not_fit;
    states_[i] = std::move(finding.state);
    if (!finding.refusal.ok()) {
      ++counts.refused;
      if (refusal_.ok()) refusal_ = std::move(finding.refusal);
    } else if (finding.too_large) {
      ++counts.too_large;
      const bool nearer = !result_.nearest || finding.too_large->bytes < result_.nearest->bytes;
      if (nearer) result_.nearest = *std::move(finding.too_large);
    } else if (finding.found) {
      ++counts.compiled;
      closed_ = std::min(closed_, states_[i].bound);
      Add(*std::move(finding.found), *std::move(finding.plan));
    } else {
      queue_.insert({states_[i].bound, i});
    }
  }

  void Add(FoundPlan found, proto::Plan plan) {
    const auto at = std::upper_bound(
        result_.found.begin(), result_.found.end(), found,
        [](const FoundPlan& a, const FoundPlan& b) { return a.step_seconds < b.step_seconds; });
    const bool best = at == result_.found.begin();
    result_.found.insert(at, std::move(found));
    if (std::ssize(result_.found) > options_.top) result_.found.pop_back();
    if (!best) return;
    result_.best = std::move(plan);
    Report(/*now=*/true);
  }

  // The best plan with the axes in the order in which compile puts them, if that is faster.
  void OrderAxes() {
    const bool ordered = spec_.given.cluster.level_size() > 1 && !result_.found.empty() &&
                         result_.found[0].candidate.family.mesh.axes.size() > 1;
    if (!ordered || Seconds() > options_.budget_seconds) return;
    Candidate candidate = result_.found[0].candidate;
    candidate.family.keep_axis_order = false;
    const CompileOptions options = CandidateOptions(spec_.given, candidate);
    absl::StatusOr<proto::Plan> plan = Compile(spec_.source, options);
    if (!plan.ok()) return;
    absl::StatusOr<FoundPlan> found = EvaluatePlan(*plan, candidate, options.cluster);
    if (!found.ok() || found->step_seconds >= .9999 * Best()) return;
    Add(*std::move(found), *std::move(plan));
  }

  double Bound() const {
    return std::min({closed_, Best(), queue_.empty() ? kNever : queue_.begin()->first});
  }

  void CountOpen() {
    SearchCounts& counts = result_.counts;
    counts.open = counts.too_slow = 0;
    for (const auto& [bound, i] : queue_) ++(bound >= Best() ? counts.too_slow : counts.open);
  }

  void Report(bool now) {
    if (!options_.observe || (!now && Seconds() - reported_ < 1)) return;
    reported_ = Seconds();
    CountOpen();
    SearchProgress progress{
        .counts = result_.counts, .seconds = reported_, .bound_seconds = Bound()};
    if (!result_.found.empty()) progress.best = result_.found[0];
    options_.observe(progress);
  }

  SearchResult Finish() {
    CountOpen();
    if (!result_.found.empty()) result_.nearest.reset();
    result_.complete = result_.counts.open == 0;
    result_.bound_seconds = result_.found.empty() ? 0 : Bound();
    result_.compared = FindCompared(spec_.given.cluster);
    result_.seconds = Seconds();
    return std::move(result_);
  }

  const SearchSpec& spec_;
  const SearchOptions& options_;
  Ladder ladder_;
  std::vector<FamilyState> states_;  // by family
  const std::chrono::steady_clock::time_point start_;
  double reported_ = 0;
  std::set<std::pair<double, size_t>> queue_;  // by bound: families that are not yet decided
  double closed_ = kNever;                     // the least bound of those compiled
  int since_compiled_ = 0;                     // climbs
  absl::Status refusal_;                       // the first
  SearchResult result_;
};

}  // namespace

absl::StatusOr<SearchResult> Search(const SearchSpec& given, const SearchOptions& options) {
  SearchSpec spec = given;
  spec.given.known_choices = std::make_shared<KnownChoices>(kMostKnownBytes);
  ASSIGN_OR_RETURN(std::vector<PlanFamily> families, ListFamilies(spec));
  return Searcher(spec, options, std::move(families)).Run();
}

}  // namespace oneflow
