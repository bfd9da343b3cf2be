// Best first: the family with the least bound is looked at more closely, until what has the least
// bound is a plan that was compiled.
#include "tools/search/search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/memory/plan_memory.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/compared_text.h"
#include "tools/search/block_mix.h"
#include "tools/search/blocks_by_slice.h"
#include "tools/search/evaluate.h"
#include "tools/search/least_costs.h"
#include "tools/search/relaxed_mix.h"
#include "tools/search/stage_costs.h"

namespace oneflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// How far a short plan may be above the compiled one, in seconds and in bytes: extrapolation_test.
constexpr double kShortError = 0.02, kShortBytesError = 0.03;
// Of the capacity, what the least bytes of a plan that fits are likely to be at most.
constexpr double kLikelyCapacity = 0.8;
// Of a step, over the bound that knows nothing of a family but its degrees.
constexpr double kUsualRatio = 1.15;
// Jobs between two compilations of what looks best, if bounds ask for none.
constexpr int kDive = 8;
// Capacities that are tried where a plan needs more than its lower bound, relative to the last one.
constexpr double kTighter = 0.97;
constexpr int kMostTries = 4;

// Of layouts that were chosen for equal graphs: plans of a family and its neighbours have many.
constexpr size_t kMostKnownBytes = size_t{256} << 20;

enum class Rung { kListed, kOne, kBounded, kShort, kCompiled };

struct Node {
  Rung rung = Rung::kListed;
  double bound = 0;        // no plan of the family takes less
  double likely = kNever;  // seconds, as far as they are known: what is tried first
  // From the short rung on:
  double told = kNever;        // seconds of `candidate`, by short plans
  double told_least = kNever;  // of the mix that bounds
  double capacity = 0;         // that the candidate was chosen for
  Candidate candidate;
  int tries = 0;
};

// What one job finds about a node; applied in the order of the jobs.
struct Finding {
  Node node;
  bool refused = false, too_large = false, did_not_fit = false;
  int64_t short_plans = 0;
  std::optional<FoundPlan> found;
  std::optional<proto::Plan> plan;
};

class Searcher {
 public:
  Searcher(const SearchSpec& spec, const SearchOptions& options, std::vector<PlanFamily> families)
      : spec_(spec),
        options_(options),
        families_(std::move(families)),
        nodes_(families_.size()),
        blocks_(FindModelShape(spec.source.graph).blocks),
        capacity_(static_cast<double>(spec.given.cluster.device().memory_bytes())),
        start_(std::chrono::steady_clock::now()) {
    result_.counts.families = static_cast<int64_t>(families_.size());
  }

  SearchResult Run() && {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      // An error is found again when the family is looked at.
      const absl::StatusOr<ShortCosts> costs =
          Costs(LeastSpecOfOne(spec_.given, families_[i]), "none", &result_.counts.short_plans);
      if (costs.ok()) {
        nodes_[i].bound = FindLeastSeconds(families_[i], *costs, blocks_, /*of_one=*/true);
      }
      nodes_[i].likely = kUsualRatio * nodes_[i].bound;
      queue_.insert({nodes_[i].bound, i});
    }
    while (Seconds() < options_.budget_seconds || result_.found.empty()) {
      const std::vector<size_t> jobs = NextJobs();
      if (jobs.empty()) break;
      std::vector<Finding> findings(jobs.size());
      std::vector<std::thread> threads;
      for (size_t i = 1; i < jobs.size(); ++i) {
        threads.emplace_back([&, i] { findings[i] = Look(jobs[i]); });
      }
      findings[0] = Look(jobs[0]);
      for (std::thread& thread : threads) thread.join();
      for (size_t i = 0; i < jobs.size(); ++i) Apply(jobs[i], std::move(findings[i]));
      Report(/*now=*/false);
    }
    return Finish();
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  double Best() const { return result_.found.empty() ? kNever : result_.found[0].step_seconds; }
  double Worst() const {
    return std::ssize(result_.found) < options_.top ? kNever : result_.found.back().step_seconds;
  }

  // Of the nodes with the least bounds. Now and then what looks best is compiled, whatever its
  // bound: a good plan prunes.
  std::vector<size_t> NextJobs() {
    std::vector<size_t> jobs;
    if (result_.found.empty() || since_compiled_ >= kDive) {
      const size_t dive = FindLikely();
      if (dive < nodes_.size()) jobs.push_back(dive);
    }
    for (const auto& [bound, i] : queue_) {
      if (std::ssize(jobs) >= options_.threads) break;
      if (bound >= Best()) break;
      if (std::find(jobs.begin(), jobs.end(), i) == jobs.end()) jobs.push_back(i);
    }
    // All that can win is known: what is left of the table.
    while (std::ssize(jobs) < options_.threads && Worst() == kNever) {
      size_t likely = nodes_.size();
      for (const auto& [bound, i] : queue_) {
        if (nodes_[i].rung != Rung::kShort) continue;
        if (std::find(jobs.begin(), jobs.end(), i) != jobs.end()) continue;
        if (likely == nodes_.size() || nodes_[i].told < nodes_[likely].told) likely = i;
      }
      if (likely == nodes_.size()) break;
      jobs.push_back(likely);
    }
    return jobs;
  }

  size_t FindLikely() const {
    size_t likely = nodes_.size();
    for (const auto& [bound, i] : queue_) {
      if (nodes_[i].likely >= Best()) continue;
      if (likely == nodes_.size() || nodes_[i].likely < nodes_[likely].likely) likely = i;
    }
    return likely;
  }

  Finding Look(size_t i) {
    switch (nodes_[i].rung) {
      case Rung::kListed: return LookAtLeastCosts(i, /*of_one=*/true);
      case Rung::kOne: return LookAtLeastCosts(i, /*of_one=*/false);
      case Rung::kBounded: return LookAtShortPlan(i);
      default: return CompileIt(i);
    }
  }

  absl::StatusOr<ShortCosts> Costs(const ShortPlanSpec& spec, std::string_view recompute,
                                   int64_t* made) {
    const std::string key = ShortPlanKey(spec_.given, spec, std::string(recompute));
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto known = costs_.find(key);
      if (known != costs_.end()) return known->second;
    }
    absl::StatusOr<ShortCosts> costs =
        MeasureShortPlan(spec_.source, spec_.given, spec, std::string(recompute));
    ++*made;
    const std::lock_guard<std::mutex> lock(mutex_);
    return costs_.emplace(key, std::move(costs)).first->second;
  }

  Finding LookAtLeastCosts(size_t i, bool of_one) {
    Finding finding{nodes_[i]};
    finding.node.rung = of_one ? Rung::kOne : Rung::kBounded;
    finding.refused = !BoundByLeastCosts(i, of_one, &finding).ok();
    return finding;
  }

  absl::Status BoundByLeastCosts(size_t i, bool of_one, Finding* finding) {
    const PlanFamily& family = families_[i];
    const ShortPlanSpec spec =
        of_one ? LeastSpecOfOne(spec_.given, family) : LeastSpec(spec_.given, family);
    ASSIGN_OR_RETURN(const std::vector<int> slices, SlicesOf(family));
    const std::vector<int> blocks = ByStage(slices, family);
    double& bound = finding->node.bound;
    std::vector<ShortCosts> measured;
    std::optional<double> longest;
    for (const std::string_view policy : kPolicies) {
      ASSIGN_OR_RETURN(const ShortCosts costs, Costs(spec, policy, &finding->short_plans));
      if (measured.empty()) {
        bound = std::max(bound, FindLeastSeconds(family, costs, blocks_, of_one));
        if (spec_.fixed.recompute) return absl::OkStatus();
      }
      measured.push_back(LeastOfFamily(spec_.given, family, costs, of_one));
      if (measured.size() > 1 && measured.size() < std::size(kPolicies)) continue;
      ASSIGN_OR_RETURN(longest, LongestStage(family, measured, blocks, capacity_));
      if (longest) break;
    }
    finding->too_large = !longest;
    if (!longest) return absl::OkStatus();
    const auto m = static_cast<double>(family.micro_batches);
    bound = std::max(bound, m * *longest);
    ASSIGN_OR_RETURN(const std::optional<double> likely,
                     LongestStage(family, measured, blocks, capacity_ * kLikelyCapacity));
    const double fill = static_cast<double>(family.mesh.stages() - 1) / family.chunks;
    finding->node.likely = likely ? std::max(bound, (m + fill) * *likely) : kNever;
    return absl::OkStatus();
  }

  // The least seconds of a micro-batch on the longest stage, with mixes that may fit; none where
  // none may.
  absl::StatusOr<std::optional<double>> LongestStage(const PlanFamily& family,
                                                     const std::vector<ShortCosts>& measured,
                                                     const std::vector<int>& blocks,
                                                     double capacity) const {
    ASSIGN_OR_RETURN(const FamilyCosts costs,
                     FamilyCosts::Make(spec_.given, family, measured, blocks,
                                       /*fits_orders=*/false));
    std::optional<double> longest = RelaxedSeconds(costs, blocks, capacity);
    if (!MayRebalance(family)) return longest;
    const std::optional<double> other = RelaxedBalance(costs, blocks_, capacity);
    if (other) longest = std::min(longest.value_or(kNever), *other);
    return longest;
  }

  bool MayRebalance(const PlanFamily& family) const {
    return family.mesh.stages() > 1 && family.chunks == 1 && !spec_.fixed.stage_layers;
  }

  static std::vector<int> ByStage(const std::vector<int>& slices, const PlanFamily& family) {
    std::vector<int> blocks(family.mesh.stages(), 0);
    for (size_t s = 0; s < slices.size(); ++s) blocks[s % blocks.size()] += slices[s];
    return blocks;
  }

  Finding LookAtShortPlan(size_t i) {
    Finding finding{nodes_[i]};
    const absl::Status status = Tell(i, capacity_, &finding);
    finding.refused = !status.ok();
    if (!status.ok() || finding.too_large) return finding;
    Node& node = finding.node;
    node.rung = Rung::kShort;
    node.bound = std::max(node.bound, node.told_least * (1 - kShortError));
    node.likely = node.told;
    return finding;
  }

  // The best mix for a capacity, and what bounds all mixes that may fit the device.
  absl::Status Tell(size_t i, double capacity, Finding* finding) {
    const PlanFamily& family = families_[i];
    const ShortPlanSpec spec = FindShortSpec(spec_.given, family);
    ASSIGN_OR_RETURN(const std::vector<int> slices, SlicesOf(family));
    const std::vector<int> blocks = ByStage(slices, family);
    Node& node = finding->node;
    node.candidate = {family, {}};
    node.capacity = capacity;
    if (spec_.fixed.recompute) {
      // As it is fixed: one policy for all blocks, whatever it says.
      ASSIGN_OR_RETURN(const ShortCosts costs,
                       Costs(spec, *spec_.fixed.recompute, &finding->short_plans));
      ASSIGN_OR_RETURN(const FamilyCosts all,
                       FamilyCosts::Make(spec_.given, family, {costs}, blocks));
      ASSIGN_OR_RETURN(const std::optional<BlockMix> mix,
                       ChooseMix(all, blocks, capacity * (1 + kShortBytesError)));
      finding->too_large = !mix;
      if (!mix) return absl::OkStatus();
      node.told = node.told_least = mix->step_seconds;
      node.candidate.blocks = {*spec_.fixed.recompute, FixedLayers()};
      return absl::OkStatus();
    }
    // None is all where it fits; where even full does not, no mix does.
    std::vector<ShortCosts> measured;
    ASSIGN_OR_RETURN(measured.emplace_back(), Costs(spec, kPolicies[0], &finding->short_plans));
    ASSIGN_OR_RETURN(FamilyCosts all, FamilyCosts::Make(spec_.given, family, measured, blocks));
    ASSIGN_OR_RETURN(std::optional<BlockMix> mix, ChooseMix(all, blocks, capacity));
    if (!mix) {
      const size_t full = std::size(kPolicies) - 1;
      ASSIGN_OR_RETURN(const ShortCosts least_bytes,
                       Costs(spec, kPolicies[full], &finding->short_plans));
      ASSIGN_OR_RETURN(const FamilyCosts one,
                       FamilyCosts::Make(spec_.given, family, {least_bytes}, blocks));
      const double most = capacity_ * (1 + kShortBytesError);
      ASSIGN_OR_RETURN(const std::optional<BlockMix> fits, ChooseMix(one, blocks, most));
      finding->too_large = !fits && !BalanceBlocks(one, blocks_, most);
      if (finding->too_large) return absl::OkStatus();
      for (size_t p = 1; p < full; ++p) {
        ASSIGN_OR_RETURN(measured.emplace_back(), Costs(spec, kPolicies[p], &finding->short_plans));
      }
      measured.push_back(least_bytes);
      ASSIGN_OR_RETURN(all, FamilyCosts::Make(spec_.given, family, measured, blocks));
      ASSIGN_OR_RETURN(mix, ChooseMix(all, blocks, capacity));
    }
    ASSIGN_OR_RETURN(const std::optional<BlockMix> least,
                     ChooseMix(all, blocks, capacity_ * (1 + kShortBytesError)));
    node.told_least = least ? least->step_seconds : kNever;
    node.candidate.blocks.stage_layers = FixedLayers();
    if (mix) node.candidate.blocks.recompute = RecomputeWords(mix->counts, slices);
    RETURN_IF_ERROR(Rebalance(all, capacity, &mix, &node));
    finding->too_large = !mix;
    node.told = mix ? mix->step_seconds : kNever;
    return absl::OkStatus();
  }

  std::vector<int> FixedLayers() const {
    return spec_.fixed.stage_layers.value_or(std::vector<int>());
  }

  // Other numbers of blocks on the stages, where they make a step shorter.
  absl::Status Rebalance(const FamilyCosts& costs, double capacity, std::optional<BlockMix>* mix,
                         Node* node) const {
    const PlanFamily& family = node->candidate.family;
    if (!MayRebalance(family)) return absl::OkStatus();
    for (const bool bounds : {true, false}) {
      const double bytes = bounds ? capacity_ * (1 + kShortBytesError) : capacity;
      const std::optional<std::vector<int>> blocks = BalanceBlocks(costs, blocks_, bytes);
      if (!blocks) continue;
      ASSIGN_OR_RETURN(const std::optional<BlockMix> other, ChooseMix(costs, *blocks, bytes));
      if (!other) continue;
      if (bounds) {
        node->told_least = std::min(node->told_least, other->step_seconds);
      } else if (!*mix || other->step_seconds < .999 * (*mix)->step_seconds) {
        *mix = other;
        node->candidate.blocks = {RecomputeWords(other->counts, *blocks), *blocks};
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int>> SlicesOf(const PlanFamily& family) {
    if (spec_.fixed.stage_layers) return *spec_.fixed.stage_layers;
    const auto key = std::pair(family.mesh.stages(), family.chunks);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto known = slices_.find(key);
      if (known != slices_.end()) return known->second;
    }
    ASSIGN_OR_RETURN(std::vector<int> slices,
                     BlocksBySlice(spec_.source, CandidateOptions(spec_.given, {family, {}})));
    const std::lock_guard<std::mutex> lock(mutex_);
    return slices_.emplace(key, std::move(slices)).first->second;
  }

  Finding CompileIt(size_t i) {
    Finding finding{nodes_[i]};
    Node& node = finding.node;
    const CompileOptions options = CandidateOptions(spec_.given, node.candidate);
    absl::StatusOr<proto::Plan> plan = Compile(spec_.source, options);
    if (absl::IsResourceExhausted(plan.status())) {
      finding.did_not_fit = true;
      Tighten(i, &finding);
      return finding;
    }
    finding.refused = !plan.ok();
    if (!plan.ok()) return finding;
    absl::StatusOr<FoundPlan> found = EvaluatePlan(*plan, node.candidate, options.cluster);
    finding.refused = !found.ok();
    if (!found.ok()) return finding;
    // The short plans' error is that of all mixes.
    node.bound =
        std::max(node.bound, found->step_seconds * std::min(1.0, node.told_least / node.told));
    node.rung = Rung::kCompiled;
    finding.found = *std::move(found);
    finding.plan = *std::move(plan);
    return finding;
  }

  // The plan needs more than its lower bound: the next mix that needs less.
  void Tighten(size_t i, Finding* finding) {
    Node& node = finding->node;
    const Node before = node;
    double capacity = node.capacity;
    while (++node.tries < kMostTries) {
      capacity *= kTighter;
      Finding next{node};
      if (!Tell(i, capacity, &next).ok() || next.too_large || next.node.told == kNever) break;
      node.capacity = capacity;
      if (next.node.candidate == before.candidate) continue;
      node.told = node.likely = next.node.told;
      node.candidate = next.node.candidate;
      return;
    }
    // Whatever is recomputed, it does not fit.
    finding->too_large = true;
  }

  void Apply(size_t i, Finding finding) {
    queue_.erase({nodes_[i].bound, i});
    const Rung before = nodes_[i].rung;
    nodes_[i] = std::move(finding.node);
    SearchCounts& counts = result_.counts;
    counts.short_plans += finding.short_plans;
    counts.did_not_fit += finding.did_not_fit ? 1 : 0;
    since_compiled_ = before == Rung::kShort ? 0 : since_compiled_ + 1;
    if (finding.refused || finding.too_large) {
      ++(finding.refused ? counts.refused : counts.too_large);
      nodes_[i].bound = kNever;
      return;
    }
    if (!finding.found) {
      queue_.insert({nodes_[i].bound, i});
      return;
    }
    ++counts.compiled;
    closed_ = std::min(closed_, nodes_[i].bound);
    const auto at = std::upper_bound(
        result_.found.begin(), result_.found.end(), *finding.found,
        [](const FoundPlan& a, const FoundPlan& b) { return a.step_seconds < b.step_seconds; });
    const bool best = at == result_.found.begin();
    result_.found.insert(at, *std::move(finding.found));
    if (std::ssize(result_.found) > options_.top) result_.found.pop_back();
    if (best) result_.best = *std::move(finding.plan);
    if (best) Report(/*now=*/true);
  }

  double Bound() const {
    return std::min({closed_, Best(), queue_.empty() ? kNever : queue_.begin()->first});
  }

  void Count() {
    SearchCounts& counts = result_.counts;
    counts.open = counts.too_slow = 0;
    for (const auto& [bound, i] : queue_) ++(bound >= Best() ? counts.too_slow : counts.open);
  }

  void Report(bool now) {
    if (!options_.observe || (!now && Seconds() - reported_ < 1)) return;
    reported_ = Seconds();
    Count();
    SearchProgress progress{
        .counts = result_.counts, .seconds = reported_, .bound_seconds = Bound()};
    if (!result_.found.empty()) progress.best = result_.found[0];
    options_.observe(progress);
  }

  SearchResult Finish() {
    Count();
    result_.complete = result_.counts.open == 0;
    result_.bound_seconds = Bound();
    result_.compared = FindCompared(spec_.given.cluster);
    result_.seconds = Seconds();
    return std::move(result_);
  }

  const SearchSpec& spec_;
  const SearchOptions& options_;
  const std::vector<PlanFamily> families_;
  std::vector<Node> nodes_;  // by family
  const int blocks_;
  const double capacity_;
  std::chrono::steady_clock::time_point start_;
  double reported_ = 0;
  std::set<std::pair<double, size_t>> queue_;  // by bound: families that are not yet decided
  double closed_ = kNever;                     // the least bound of those compiled
  int since_compiled_ = 0;
  SearchResult result_;

  std::mutex mutex_;  // of what jobs share
  std::map<std::string, absl::StatusOr<ShortCosts>> costs_;
  std::map<std::pair<int, int>, std::vector<int>> slices_;
};

}  // namespace

absl::StatusOr<SearchResult> Search(const SearchSpec& given, const SearchOptions& options) {
  SearchSpec spec = given;
  spec.given.known_choices = std::make_shared<KnownChoices>(kMostKnownBytes);
  ASSIGN_OR_RETURN(std::vector<PlanFamily> families, ListFamilies(spec));
  return Searcher(spec, options, std::move(families)).Run();
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
