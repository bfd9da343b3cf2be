// Best first: the group with the least bound climbs the ladder, until what has the least bound is
// a plan that was compiled. Next: planning/search/ladder.h, the rungs.
#include "planning/search/search.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <semaphore>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/print/compared_text.h"
#include "oneflow_core/recipe/forms.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/evaluate.h"
#include "planning/search/ladder.h"

namespace oneflow {
namespace {

// Times of a climb from each rung, as a rule, in milliseconds of a model of 10^11 parameters.
constexpr double kClimbCosts[] = {1, 20, 500, 1200, 2000, 4000};
// Climbs that are begun, for each thread: one that ends early leaves it none to wait for.
constexpr int kAhead = 3;
// The time that is spent for plans, on the clock of kClimbCosts, before any plan that fits is
// wanted.
constexpr double kPatience = 40'000;
// A group that may become the best plan is tried first: it is likely, by rung, to take at most so
// much of the best. Estimates are not exact, drafts are.
constexpr double kPromising[] = {1.02, 1.02, 1.02, 1.02, 1.02, 0.999};
// Bytes of layouts that were chosen for equal graphs: plans of a group and its neighbours have
// many.
constexpr size_t kMostKnownBytes = size_t{256} << 20;

// Ratios of a plan's bytes to its least ones: smaller gaps differ too much to expect them of
// others.
constexpr double kLargeGaps = 1.05;

// Groups whose plans have gaps of about the same size.
std::string PackingKey(const proto::Recipe& group) {
  return absl::StrCat(group.schedule(), " ", kShardForm.print(group.shard()));
}

class Searcher {
 public:
  Searcher(const SearchSpec& spec, const SearchOptions& options, std::vector<proto::Recipe> groups)
      : spec_(spec),
        options_(options),
        cores_(options.threads),
        ladder_(spec, std::move(groups)),
        states_(ladder_.size()),
        climbs_(ladder_.size(), false),
        start_(std::chrono::steady_clock::now()) {
    result_.counts.groups = static_cast<int64_t>(states_.size());
  }

  absl::StatusOr<SearchResult> Run() && {
    for (size_t i = 0; i < states_.size(); ++i) {
      states_[i] = ladder_.Start(i, &result_.counts.short_plans);
      queue_.insert({states_[i].bound, i});
    }
    double now = 0;  // on the clock of kClimbCosts
    while (true) {
      while (std::ssize(running_) < kAhead * options_.threads) {
        const std::optional<Choice> next = NextClimb();
        if (!next) break;
        Start(*next, now);
      }
      if (running_.empty()) break;
      now = FinishFirst();
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

  // The purposes of climbs: plans, of groups whose seconds are known well; to know those of others
  // that are likely to be fast; and to raise the bound, which gets half as much time as the others.
  enum Purpose { kPlans, kSeconds, kBounds, kPurposes };
  struct Choice {
    size_t group = 0;
    Purpose purpose = kBounds;
  };

  // Results are applied in the order in which climbs would end if each took what kClimbCosts
  // says. So what is chosen depends on nothing but what was found: with the same number of threads
  // a search finds the same, however long its climbs take; and one that takes long keeps no other
  // thread waiting, as long as the costs are about right.
  struct Running {
    double end = 0;
    size_t group = 0;
    std::future<Finding> finding;
  };

  std::optional<Choice> NextClimb() const {
    const double best = BestToCome();
    const bool waits = result_.found.empty() && spent_[kPlans] > kPatience;
    const size_t groups[kPurposes] = {waits ? FindFurthest() : FindLikely(Rung::kPlain, best),
                                      FindLikely(Rung::kListed, best), FindLeastBound()};
    std::optional<Choice> next;
    for (const Purpose purpose : {kPlans, kSeconds, kBounds}) {
      if (!IsInTime(groups[purpose])) continue;
      if (!next || spent_[purpose] < spent_[next->purpose]) next = {groups[purpose], purpose};
    }
    if (next || std::ssize(result_.found) >= options_.top) return next;
    // At last, what fills the table.
    const size_t i = FindLikely(Rung::kPlain, kNever);
    return IsInTime(i) ? std::optional<Choice>({i, kPlans}) : std::nullopt;
  }

  // A search that has found nothing yet goes on for as long again. What would not end in time, as
  // far as others like it tell, does not begin.
  bool IsInTime(size_t i) const {
    if (i == none() || (options_.first_fit && !result_.found.empty())) return false;
    if (result_.found.empty()) return Seconds() < 2 * options_.budget_seconds;
    double waits = 0;  // for a core
    for (const Running& climb : running_) waits += Longest(climb.group);
    waits = std::max(0.0, waits / options_.threads - Longest(i));
    return Seconds() + waits + Longest(i) < options_.budget_seconds;
  }

  // Seconds of climbs from its rung, at most.
  double Longest(size_t i) const { return longest_[static_cast<int>(states_[i].rung)]; }

  // The best plan, or one that is being compiled.
  double BestToCome() const {
    double best = Best();
    for (const Running& climb : running_) {
      const GroupState& state = states_[climb.group];
      if (state.rung == Rung::kDrafted) best = std::min(best, state.likely);
    }
    return best;
  }

  size_t none() const { return states_.size(); }

  size_t FindLeastBound() const {
    for (const auto& [bound, i] : queue_) {
      if (bound >= Best()) break;
      if (!climbs_[i]) return i;
    }
    return none();
  }

  // The group that is likely to be fastest, from a rung on; none() where none promises to be
  // faster than `best`.
  size_t FindLikely(Rung from, double best) const {
    size_t likely = none();
    for (const auto& [bound, i] : queue_) {
      // None is likely to take less than its bound.
      if (bound >= (likely == none() ? best : states_[likely].likely)) break;
      const GroupState& state = states_[i];
      if (state.rung < from || climbs_[i]) continue;
      if (state.likely >= kPromising[static_cast<int>(state.rung)] * best) continue;
      if (likely == none() || state.likely < states_[likely].likely) likely = i;
    }
    return likely;
  }

  // The group that is nearest to a plan, where long none has fitted: on the highest rung, and of
  // equals the one that is likely to be fastest.
  size_t FindFurthest() const {
    const auto key = [&](size_t i) {
      const GroupState& state = states_[i];
      return std::pair(-static_cast<int>(state.rung), state.likely);
    };
    size_t furthest = none();
    for (const auto& [bound, i] : queue_) {
      if (states_[i].rung < Rung::kPlain || climbs_[i]) continue;
      if (furthest == none() || key(i) < key(furthest)) furthest = i;
    }
    return furthest;
  }

  void Start(const Choice& choice, double now) {
    const size_t i = choice.group;
    const double cost = kClimbCosts[static_cast<int>(states_[i].rung)];
    spent_[choice.purpose] += choice.purpose == kBounds ? 2 * cost : cost;
    climbs_[i] = true;
    const auto packing = packing_.find(PackingKey(ladder_.group(i)));
    // A group with a plan has gaps of its own.
    if (packing != packing_.end() && states_[i].compiled == kNever) {
      const auto [least, most] = packing->second;
      states_[i].packing = least > kLargeGaps ? least : 1;
      states_[i].usual_packing = most;
    }
    const auto climb = [this, i] {
      cores_.acquire();
      const double begin = Seconds();
      Finding finding = ladder_.Climb(i, states_[i]);
      finding.seconds = Seconds() - begin;
      cores_.release();
      return finding;
    };
    running_.push_back({now + cost, i, std::async(std::launch::async, climb)});
  }

  // Waits for the climb that ends first on the clock, and returns when that is.
  double FinishFirst() {
    const auto first =
        std::min_element(running_.begin(), running_.end(),
                         [](const Running& a, const Running& b) { return a.end < b.end; });
    const size_t i = first->group;
    const double end = first->end;
    Finding finding = first->finding.get();
    double& longest = longest_[static_cast<int>(states_[i].rung)];
    longest = std::max(longest, finding.seconds);
    running_.erase(first);
    climbs_[i] = false;
    Apply(i, std::move(finding));
    return end;
  }

  void Apply(size_t i, Finding finding) {
    queue_.erase({states_[i].bound, i});
    SearchCounts& counts = result_.counts;
    if (!finding.refusal.ok() && finding.state.compiled < kNever) {
      // Another mix of a group that has a plan.
      finding.refusal = absl::OkStatus();
      finding.state.rung = Rung::kCompiled;
    }
    counts.short_plans += finding.short_plans;
    if (finding.did_not_fit) ++counts.did_not_fit;
    if (finding.packing > 0) {
      const auto known = packing_.emplace(PackingKey(ladder_.group(i)),
                                          std::pair(finding.packing, finding.packing));
      auto& [least, most] = known.first->second;
      least = std::min(least, finding.packing);
      most = std::max(most, finding.packing);
    }
    states_[i] = std::move(finding.state);
    if (!finding.refusal.ok()) {
      ++counts.refused;
      if (refusal_.ok()) refusal_ = std::move(finding.refusal);
    } else if (finding.too_large) {
      ++counts.too_large;
      const bool nearer = !result_.nearest || finding.too_large->bytes < result_.nearest->bytes;
      if (nearer) result_.nearest = *std::move(finding.too_large);
    } else {
      if (states_[i].rung == Rung::kCompiled) {
        closed_ = std::min(closed_, states_[i].bound);
      } else {
        queue_.insert({states_[i].bound, i});
      }
      if (!finding.found) return;
      ++counts.compiled;
      Add(*std::move(finding.found), *std::move(finding.plan));
    }
  }

  // Keeps only the best of the plans of one group, which may be compiled for several mixes.
  void Add(FoundPlan found, proto::Plan plan) {
    const auto same =
        std::find_if(result_.found.begin(), result_.found.end(),
                     [&](const FoundPlan& f) { return IsSameGroup(f.candidate, found.candidate); });
    if (same != result_.found.end()) {
      if (same->step_seconds <= found.step_seconds) return;
      result_.found.erase(same);
    }
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
                         result_.found[0].candidate.keep_axis_order();
    if (!ordered || Seconds() > options_.budget_seconds) return;
    proto::Recipe candidate = result_.found[0].candidate;
    candidate.set_keep_axis_order(false);
    const PlanRequest options = CandidateRequest(spec_.given, candidate);
    absl::StatusOr<Planned> planned = MakePlan(spec_.source, options);
    if (!planned.ok()) return;
    proto::Plan* plan = &planned->plan;
    absl::StatusOr<FoundPlan> found = EvaluatePlan(*plan, candidate, options.cluster);
    if (!found.ok() || found->step_seconds >= .9999 * Best()) return;
    Add(*std::move(found), std::move(*plan));
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
  std::counting_semaphore<> cores_;
  Ladder ladder_;
  std::vector<GroupState> states_;  // by group
  std::vector<bool> climbs_;        // by group: whether it does
  const std::chrono::steady_clock::time_point start_;
  double reported_ = 0;
  std::set<std::pair<double, size_t>> queue_;  // by bound: groups that are not yet decided
  double closed_ = kNever;                     // the least bound of those compiled
  std::vector<Running> running_;
  std::map<std::string, std::pair<double, double>> packing_;  // by PackingKey: least and most
  double spent_[kPurposes] = {};                              // on the clock of kClimbCosts
  double longest_[std::size(kClimbCosts)] = {};               // by rung: seconds of a climb
  absl::Status refusal_;                                      // the first
  SearchResult result_;
};

}  // namespace

absl::StatusOr<SearchResult> Search(const SearchSpec& given, const SearchOptions& options) {
  SearchSpec spec = given;
  spec.given.known_layouts = std::make_shared<KnownLayouts>(kMostKnownBytes);
  ASSIGN_OR_RETURN(std::vector<proto::Recipe> groups, ListGroups(spec));
  return Searcher(spec, options, std::move(groups)).Run();
}

}  // namespace oneflow
