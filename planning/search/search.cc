// Next: planning/search/ladder.h, the rungs.
#include "planning/search/search.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iterator>
#include <memory>
#include <semaphore>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "planning/recipe/changes_that_fit.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/evaluate.h"
#include "planning/search/experience.h"
#include "planning/search/ladder.h"
#include "planning/search/simplest.h"

namespace oneflow {
namespace {

// Times of a climb from each rung, as a rule, in milliseconds of a model of 10^11 parameters.
constexpr double kClimbCosts[] = {800, 4000};
// Climbs that are begun, for each thread: one that ends early leaves it none to wait for.
constexpr int kAhead = 3;
// Ordinary plans that are estimated before the best of them is compiled; and at most, as long as
// the next promises to be faster by so much.
constexpr int64_t kFirstEstimates = 2, kMostFirstEstimates = 6;
constexpr double kSurprise = 1.1;
// Ordinary plans of fewer axes come first: a short plan takes twice as long for each axis.
constexpr double kAxisCost = 0.01;
// A group that may become the best plan is tried first: it is likely, by rung, to take at most so
// much of the best. Formulas are off by as much, short plans by less.
constexpr double kPromising[] = {1.03, 1.005};
// Bytes of layouts that were chosen for equal graphs, which plans of neighbours have.
constexpr size_t kMostKnownBytes = size_t{256} << 20;

// A plan that may not fit is tried behind others by so much.
constexpr double kTight = 1.1;

class Searcher {
 public:
  // `stop` ends what spec.given compiles.
  Searcher(const SearchSpec& spec, const SearchOptions& options,
           const std::vector<proto::Recipe>& groups, std::stop_source stop)
      : spec_(spec),
        options_(options),
        stop_(std::move(stop)),
        cores_(options.threads),
        ladder_(spec_, ListToSearch(spec, groups)),
        states_(ladder_.size()),
        climbs_(ladder_.size(), false),
        start_(std::chrono::steady_clock::now()) {
    result_.counts.groups = static_cast<int64_t>(groups.size());
  }

  absl::StatusOr<SearchResult> Run() && {
    ListNext(/*uniform=*/true);
    double now = 0;  // on the clock of kClimbCosts
    while (true) {
      while (std::ssize(running_) < kAhead * options_.threads) {
        const std::optional<size_t> next = NextClimb();
        if (!next) break;
        Start(*next, now);
      }
      if (running_.empty()) break;
      now = FinishFirst();
      Report(/*now=*/false);
    }
    CountOpen();
    if (result_.counts.refused == result_.counts.groups && !refusal_.ok()) return refusal_;
    OrderAxes();
    return Finish();
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool IsOver() const {
    return Seconds() > options_.budget_seconds || (options_.stop && options_.stop());
  }
  double Best() const { return result_.found.empty() ? kNever : result_.found[0].step_seconds; }
  size_t none() const { return states_.size(); }
  std::string Serialized(size_t i) const { return ladder_.group(i).SerializeAsString(); }

  // Results are applied in the order in which climbs would end if each took what kClimbCosts
  // says. So with the same number of threads a search finds the same, however long its climbs take;
  // and one that takes long keeps no other thread waiting, as long as the costs are about right.
  struct Running {
    double end = 0;
    size_t group = 0;
    Rung rung = Rung::kListed;
    std::future<Finding> finding;
  };

  std::optional<size_t> NextClimb() {
    if (IsOver() || (options_.first_fit && !result_.found.empty())) return std::nullopt;
    std::optional<size_t> next = result_.found.empty() ? FirstClimb() : BetterClimb();
    if (listed_ < states_.size() && !next && running_.empty()) {
      ListNext(/*uniform=*/false);
      next = FirstClimb();
    }
    // An ordinary plan may be the best one of its group, too.
    while (next && TakeKnown(*next)) next = BetterClimb();
    return next && IsInTime(*next) ? next : std::nullopt;
  }

  // Ordinary plans, which stand first; or all others.
  void ListNext(bool uniform) {
    for (; listed_ < states_.size() && (!uniform || ladder_.IsUniform(listed_)); ++listed_) {
      if (IsOver()) return;
      const proto::Recipe& group = ladder_.group(listed_);
      experience_.AddGroup(group);
      queue_.insert({states_[listed_].bound, listed_});
      Apply(listed_, ladder_.List(listed_, experience_.Packing(group)));
    }
  }

  // Until there is a plan: a few estimates of ordinary plans, then the best one is compiled, beside
  // nothing else; and so on with those that follow, should it not fit.
  std::optional<size_t> FirstClimb() {
    for (const Running& climb : running_) {
      if (climb.rung == Rung::kEstimated) return std::nullopt;
    }
    const size_t estimated = FindLikely(Rung::kEstimated, kNever);
    const size_t listed = FindLikely(Rung::kListed, kNever);
    const auto estimates = std::count_if(queue_.begin(), queue_.end(), [&](const auto& entry) {
      return states_[entry.second].rung == Rung::kEstimated || climbs_[entry.second];
    });
    // Where formulas promise more of the next one, they may be far off only for those before.
    const bool promises = listed != none() && estimated != none() &&
                          kSurprise * Likely(listed) < states_[estimated].seconds;
    const bool more = estimates < kFirstEstimates || (promises && estimates < kMostFirstEstimates);
    if (more && listed != none()) return listed;
    const bool waits = std::any_of(running_.begin(), running_.end(), [&](const Running& climb) {
      return states_[climb.group].seconds < kNever;
    });
    if (waits || (estimated != none() && !running_.empty())) return std::nullopt;
    return estimated == none() ? FindSmallest() : std::optional(FindCheapest(estimated));
  }

  // Where formulas say that nothing fits: the group that needs least by them.
  std::optional<size_t> FindSmallest() const {
    std::optional<size_t> smallest;
    for (const auto& [bound, i] : queue_) {
      if (states_[i].rung != Rung::kListed || climbs_[i]) continue;
      if (!smallest || states_[i].bytes < states_[*smallest].bytes) smallest = i;
    }
    return smallest;
  }

  // True if the group's plan was compiled for another one: then it is not compiled again.
  bool TakeKnown(size_t i) {
    const GroupState& state = states_[i];
    if (state.rung != Rung::kEstimated) return false;
    const auto same = std::find_if(
        result_.found.begin(), result_.found.end(),
        [&](const FoundPlan& found) { return IsSame(found.candidate, state.candidate); });
    if (same == result_.found.end()) return false;
    Finding finding{state};
    const double least = same->step_seconds / state.seconds * state.least_seconds;
    finding.state.rung = Rung::kCompiled;
    finding.state.bound = std::max(state.bound, std::min(same->step_seconds, least));
    Apply(i, std::move(finding));
    return true;
  }

  // The group with fewest slices of the model, whose plan is compiled soonest, among those that are
  // estimated to take about as long as this one.
  size_t FindCheapest(size_t best) const {
    const auto slices = [&](size_t i) {
      return FindMesh(ladder_.group(i)).stages() * ladder_.group(i).chunks();
    };
    size_t cheapest = best;
    for (const auto& [bound, i] : queue_) {
      const bool alike = states_[i].rung == Rung::kEstimated && !climbs_[i] &&
                         Likely(i) <= (1 + kOrderSpread) * Likely(best);
      if (alike && slices(i) < slices(cheapest)) cheapest = i;
    }
    return cheapest;
  }

  // Estimates and compilations get the same time each; of these every second one a simpler plan of
  // the best one's class, if there is one. At last what raises the bound, and what fills the table.
  std::optional<size_t> BetterClimb() {
    if (listed_ < states_.size()) ListNext(/*uniform=*/false);
    for (const double best : {BestToCome(), Best()}) {
      const size_t listed = FindLikely(Rung::kListed, best);
      const size_t estimated = FindLikely(Rung::kEstimated, best);
      const bool compiles = listed == none() || spent_[1] <= spent_[0];
      const size_t simpler = result_.counts.compiled % 2 == 1 ? FindSimpler() : none();
      if (simpler != none() && compiles) return simpler;
      if (estimated != none() && compiles) return estimated;
      if (listed != none()) return listed;
    }
    if (const size_t simpler = FindSimpler(); simpler != none()) return simpler;
    if (const std::optional<size_t> least = FindLeastBound()) return least;
    if (std::ssize(result_.found) >= options_.top) return std::nullopt;
    const size_t i = FindLikely(Rung::kEstimated, kNever);
    return i == none() ? std::nullopt : std::optional(i);
  }

  // The simplest group whose plan is likely in the class of the best, if simpler than all found.
  size_t FindSimpler() const {
    if (!options_.simplest) return none();
    const auto as_found = [&](size_t i) {
      return FoundPlan{.candidate = states_[i].candidate,
                       .step_seconds = states_[i].seconds,
                       .bytes = static_cast<int64_t>(states_[i].bytes)};
    };
    const int64_t capacity = UsableBytes(spec_.given.cluster.device());
    FoundPlan simplest = result_.found[FindSimplest(result_.found, capacity)];
    size_t simpler = none();
    for (const auto& [bound, i] : queue_) {
      if (states_[i].rung != Rung::kEstimated || climbs_[i] || states_[i].tight) continue;
      if (states_[i].seconds > (1 + kOrderSpread) * Best()) continue;
      if (!IsSimpler(as_found(i), simplest, capacity)) continue;
      simplest = as_found(i);
      simpler = i;
    }
    return simpler;
  }

  // Where a search ends by its time, what would not end in time, as far as others like it tell,
  // does not begin.
  bool IsInTime(size_t i) const {
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
      if (climb.rung == Rung::kEstimated) best = std::min(best, states_[climb.group].seconds);
    }
    return best;
  }

  // The group on a rung that is likely to be faster than `best`; none() where none promises to be.
  // Of those that are listed an ordinary one as long as there is no plan.
  size_t FindLikely(Rung rung, double best) const {
    size_t likely = none();
    const bool ordinary = rung == Rung::kListed && result_.found.empty();
    const auto key = [&](size_t i) {
      const double more = ordinary ? kAxisCost * ladder_.group(i).mesh().axis_size() : 0;
      return std::pair(ordinary && !ladder_.IsUniform(i), Likely(i) * (1 + more));
    };
    for (const auto& [bound, i] : queue_) {
      if (bound >= best) break;
      const GroupState& state = states_[i];
      if (state.rung != rung || climbs_[i] || state.seconds == kNever) continue;
      if (Likely(i) >= kPromising[static_cast<int>(rung)] * best) continue;
      if (ordinary && IsLikeRunning(i)) continue;
      if (likely == none() || key(i) < key(likely)) likely = i;
    }
    return likely;
  }

  bool IsLikeRunning(size_t i) const {
    return std::any_of(running_.begin(), running_.end(), [&](const Running& climb) {
      return experience_.HaveSameAxes(i, climb.group);
    });
  }

  // The seconds of a group that is listed, as far off as those of others that are alike were.
  double Likely(size_t i) const {
    const bool listed = states_[i].rung == Rung::kListed;
    return states_[i].seconds * (listed ? experience_.Correction(i) : 1) *
           (states_[i].tight ? kTight : 1);
  }

  std::optional<size_t> FindLeastBound() const {
    for (const auto& [bound, i] : queue_) {
      if (bound >= Best()) break;
      if (!climbs_[i]) return i;
    }
    return std::nullopt;
  }

  void Start(size_t i, double now) {
    const Rung rung = states_[i].rung;
    climbed_.insert(Serialized(i));
    const double cost = kClimbCosts[static_cast<int>(rung)];
    spent_[static_cast<int>(rung)] += cost;
    climbs_[i] = true;
    const proto::Recipe& group = ladder_.group(i);
    const double packing = experience_.Packing(group);
    const auto climb = [this, i, packing] {
      cores_.acquire();
      const double begin = Seconds();
      Finding finding = ladder_.Climb(i, states_[i], packing);
      finding.seconds = Seconds() - begin;
      cores_.release();
      return finding;
    };
    running_.push_back({now + cost, i, rung, std::async(std::launch::async, climb)});
  }

  // Waits for the climb that ends first on the clock, and returns when that is.
  double FinishFirst() {
    const auto first =
        std::min_element(running_.begin(), running_.end(),
                         [](const Running& a, const Running& b) { return a.end < b.end; });
    const size_t i = first->group;
    const double end = first->end;
    // When the time is over, what runs ends between two of its steps.
    while (first->finding.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
      if (IsOver()) stop_.request_stop();
    }
    Finding finding = first->finding.get();
    double& longest = longest_[static_cast<int>(first->rung)];
    longest = std::max(longest, finding.seconds);
    const Rung rung = first->rung;
    running_.erase(first);
    climbs_[i] = false;
    if (rung == Rung::kListed && finding.refusal.ok()) {
      experience_.AddEstimate(i, states_[i].seconds, finding.state.seconds);
    }
    Apply(i, std::move(finding));
    const bool estimated = states_[i].rung == Rung::kEstimated && states_[i].seconds < kNever;
    if (estimated && !result_.cpu_until_estimate) {
      result_.cpu_until_estimate = CpuSeconds();
      Report(/*now=*/true);
    }
    return end;
  }

  void Apply(size_t i, Finding finding) {
    queue_.erase({states_[i].bound, i});
    SearchCounts& counts = result_.counts;
    if (absl::IsCancelled(finding.refusal)) {
      finding.state = states_[i];
      finding.refusal = absl::OkStatus();
      finding.too_large.reset();
    }
    if (!finding.refusal.ok() && finding.state.compiled < kNever) {
      // Another mix of a group that has a plan.
      finding.refusal = absl::OkStatus();
      finding.state.rung = Rung::kCompiled;
    }
    const int64_t group = ladder_.IsUniform(i) ? 0 : 1;  // ordinary plans are of groups, too
    counts.short_plans += finding.short_plans;
    if (finding.did_not_fit) ++counts.did_not_fit;
    if (finding.packing > 0) {
      experience_.AddPacking(ladder_.group(i), finding.packing);
    }
    states_[i] = std::move(finding.state);
    if (!finding.refusal.ok()) {
      counts.refused += group;
      if (refusal_.ok()) refusal_ = std::move(finding.refusal);
    } else if (finding.too_large) {
      (finding.too_large->bounded ? counts.cannot_fit : counts.too_large) += group;
      const auto key = [](const NearestMiss& miss) { return std::pair(miss.bounded, miss.bytes); };
      const bool nearer = !result_.nearest || key(*finding.too_large) < key(*result_.nearest);
      if (nearer) result_.nearest = *std::move(finding.too_large);
    } else {
      if (states_[i].rung == Rung::kCompiled) {
        closed_ = std::min(closed_, states_[i].bound);
      } else {
        queue_.insert({states_[i].bound, i});
      }
      if (!finding.found) return;
      ++counts.compiled;
      if (!result_.cpu_until_plan) result_.cpu_until_plan = CpuSeconds();
      Add(*std::move(finding.found), *std::move(finding.plan));
    }
  }

  void Add(FoundPlan found, proto::Plan plan) {
    if (!AddFound(std::move(found), options_.top, &result_.found)) return;
    result_.best = std::move(plan);
    Report(/*now=*/true);
  }

  // The best plan with the axes in the order in which compile puts them, if that is faster.
  void OrderAxes() {
    if (options_.first_fit) return;
    const bool ordered = spec_.given.cluster.level_size() > 1 && !result_.found.empty() &&
                         result_.found[0].candidate.keep_axis_order();
    if (!ordered || IsOver() || Seconds() + longest_[1] > options_.budget_seconds) return;
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
    counts.open = counts.too_slow = counts.listed = counts.unlisted = 0;
    const auto is_new = [&](size_t i) { return !climbed_.contains(Serialized(i)); };
    for (const auto& [bound, i] : queue_) {
      if (ladder_.IsUniform(i)) continue;
      ++(bound >= Best() ? counts.too_slow : counts.open);
      if (bound < Best() && states_[i].rung == Rung::kListed && is_new(i)) ++counts.listed;
    }
    for (size_t i = listed_; i < states_.size(); ++i) {
      counts.open += ladder_.IsUniform(i) ? 0 : 1;
      counts.unlisted += !ladder_.IsUniform(i) && is_new(i) ? 1 : 0;
    }
  }

  void Report(bool now) {
    if (!options_.observe || (!now && Seconds() - reported_ < 1)) return;
    reported_ = Seconds();
    CountOpen();
    SearchProgress progress{.counts = result_.counts, .seconds = reported_};
    if (!result_.found.empty()) {
      progress.best = result_.found[0];
    } else if (const auto all = ListEstimates(); !all.empty()) {
      progress.estimated = all[0];
    }
    options_.observe(progress);
  }

  // Plans of groups without a compiled one, the fastest first.
  std::vector<EstimatedPlan> ListEstimates() const {
    std::vector<EstimatedPlan> all;
    for (const auto& [bound, i] : queue_) {
      const GroupState& state = states_[i];
      if (state.rung != Rung::kEstimated || state.seconds == kNever) continue;
      all.push_back({state.candidate, state.seconds, state.bytes, ladder_.bytes_error()});
    }
    std::ranges::stable_sort(all, {}, &EstimatedPlan::step_seconds);
    return all;
  }

  SearchResult Finish() {
    CountOpen();
    result_.estimates = ListEstimates();
    if (result_.found.empty() && !result_.estimates.empty()) {
      result_.estimated = result_.estimates[0];
    }
    if (!result_.found.empty() || result_.estimated) result_.nearest.reset();
    result_.complete = result_.counts.open == 0;
    double least = kNever;
    for (const auto& [bound, i] : queue_) least = std::min(least, Likely(i));
    result_.least_estimate = least == kNever ? 0 : least;
    TrimFound(options_.top, options_.simplest, UsableBytes(spec_.given.cluster.device()),
              &result_.found);
    result_.bound_seconds = result_.found.empty() ? 0 : Bound();
    result_.seconds = Seconds();
    return std::move(result_);
  }

  const SearchSpec& spec_;
  const SearchOptions& options_;
  std::stop_source stop_;
  std::counting_semaphore<> cores_;
  Ladder ladder_;
  std::vector<GroupState> states_;  // by group
  std::vector<bool> climbs_;        // by group: whether it does
  std::set<std::string> climbed_;   // groups, serialized
  size_t listed_ = 0;               // groups, the first ones
  Experience experience_;
  const std::chrono::steady_clock::time_point start_;
  double reported_ = 0;
  std::set<std::pair<double, size_t>> queue_;  // by bound: groups that are not yet decided
  double closed_ = kNever;                     // the least bound of those compiled
  std::vector<Running> running_;
  double spent_[std::size(kClimbCosts)] = {};    // by rung, on the clock of kClimbCosts
  double longest_[std::size(kClimbCosts)] = {};  // by rung: seconds of a climb
  absl::Status refusal_;                         // the first
  SearchResult result_;
};

}  // namespace

absl::StatusOr<SearchResult> Search(const SearchSpec& given, const SearchOptions& options) {
  SearchSpec spec = given;
  std::stop_source stop;
  spec.given.stop = stop.get_token();
  std::shared_ptr<KnownLayouts>& known = spec.given.known_layouts;
  if (!known) known = std::make_shared<KnownLayouts>(kMostKnownBytes);
  ASSIGN_OR_RETURN(const std::vector<proto::Recipe> groups, ListGroups(spec));
  return Searcher(spec, options, groups, std::move(stop)).Run();
}

}  // namespace oneflow
