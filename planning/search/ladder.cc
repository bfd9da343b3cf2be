#include "planning/search/ladder.h"

#include <algorithm>
#include <iterator>

#include "compiler/compile.h"
#include "oneflow_core/base/status.h"
#include "planning/search/add_policy.h"
#include "planning/search/blocks_by_slice.h"
#include "planning/search/least_costs.h"
#include "planning/search/relaxed_mix.h"

namespace oneflow {
namespace {

// Relative errors: a short plan may be so far above the compiled one, in seconds and in bytes.
constexpr double kShortError = 0.02, kShortBytesError = 0.03;
// The same of what is concluded from a short plan without recompute.
constexpr double kPlainError = 0.04, kPlainBytesError = 0.06;
// The least bytes of a plan that fits are at most this part of the capacity, as a rule.
constexpr double kLikelyCapacity = 0.8;
// A step over the bound that knows nothing of a group but its degrees, as a rule.
constexpr double kUsualRatio = 1.15;
// Parts of the capacity, for the least bytes of the first mix that is tried: packing leaves gaps,
// larger ones where chunks and gathered weights come and go.
constexpr double kFirst = 0.975, kFirstOfChunks = 0.93, kFirstOfGathers = 0.96;

std::vector<int> ByStage(const std::vector<int>& slices, const proto::Recipe& group) {
  std::vector<int> blocks(FindMesh(group).stages(), 0);
  for (size_t s = 0; s < slices.size(); ++s) blocks[s % blocks.size()] += slices[s];
  return blocks;
}

// The bytes of the stage that needs most, if all blocks have the last policy.
NearestMiss LeastNeeded(const proto::Recipe& group, const GroupCosts& costs,
                        const std::vector<int>& blocks, bool gathers = false) {
  double most = 0;
  for (int s = 0; s < costs.stages(); ++s) {
    PolicyCounts counts(costs.policies(), 0);
    counts.back() = blocks[s];
    most = std::max(most, costs.Bytes(s, counts));
  }
  return {WithPolicy(group, std::end(kPolicies)[-1], gathers), static_cast<int64_t>(most)};
}

double FirstCapacity(const proto::Recipe& group, double capacity, const GroupState& state) {
  if (state.usual_packing > 0) return capacity * kFirst / state.usual_packing;
  double share = kFirst;
  if (group.chunks() > 1) share *= kFirstOfChunks;
  if (!group.shard().weights().empty()) share *= kFirstOfGathers;
  return capacity * share;
}

// The better one of what was found of mixes with and without gathers in the backward.
class Better {
 public:
  explicit Better(const Finding& before) : least_(before.state.least_of_gathers) {}

  // That the best so far takes less than `seconds`.
  bool IsBelow(double seconds) const { return best_ && best_->state.estimate < seconds; }

  void Take(bool gathers, Finding mix) {
    least_[gathers] = mix.state.least_estimate;
    least_estimate_ = std::min(least_estimate_, least_[gathers]);
    const bool smaller = best_ && best_->too_large && mix.too_large &&
                         mix.too_large->bytes < best_->too_large->bytes;
    if (!best_ || smaller || mix.state.estimate < best_->state.estimate) best_ = std::move(mix);
  }

  void Move(Finding* to) {
    to->state = std::move(best_->state);
    to->state.least_of_gathers = least_;
    to->state.least_estimate = least_estimate_;
    to->too_large = std::move(best_->too_large);
  }

 private:
  std::optional<Finding> best_;
  std::array<double, 2> least_;  // of GroupState
  double least_estimate_ = kNever;
};

}  // namespace

Ladder::Ladder(const SearchSpec& spec, std::vector<proto::Recipe> groups)
    : spec_(spec),
      fixed_(spec.fixed.recipe),
      groups_(std::move(groups)),
      blocks_(FindModelShape(spec.source.graph).blocks),
      capacity_(static_cast<double>(spec.given.cluster.device().memory_bytes())) {}

GroupState Ladder::Start(size_t i, int64_t* short_plans) {
  GroupState state;
  // An error is found again on the next rung.
  const absl::StatusOr<ShortCosts> costs =
      Costs(LeastSpecOfOne(spec_.given, WithPolicy(groups_[i], kPolicies[0])), short_plans);
  if (costs.ok()) {
    state.bound = FindLeastSeconds(spec_.given, groups_[i], *costs, blocks_, /*of_one=*/true);
  }
  state.likely = kUsualRatio * state.bound;
  return state;
}

Finding Ladder::Climb(size_t i, const GroupState& state) {
  Finding finding{state};
  switch (state.rung) {
    case Rung::kListed:
      finding.refusal = Bound(i, /*of_one=*/true, &finding);
      finding.state.rung = Rung::kOne;
      break;
    case Rung::kOne:
      finding.refusal = Bound(i, /*of_one=*/false, &finding);
      finding.state.rung = Rung::kBounded;
      break;
    case Rung::kBounded:
      if (!fixed_.has_recompute() && !groups_[i].offload().has_activations()) {
        finding.refusal = TellPlain(i, &finding);
        break;
      }
      [[fallthrough]];
    case Rung::kPlain:
      finding.refusal = Tell(i, FirstCapacity(groups_[i], capacity_, state), &finding);
      finding.state.rung = Rung::kShort;
      finding.state.bound = std::max(state.bound, finding.state.least_estimate * (1 - kShortError));
      break;
    case Rung::kShort: finding.refusal = Draft(i, &finding); break;
    default: finding.refusal = CompileCandidate(i, &finding);
  }
  return finding;
}

absl::StatusOr<ShortCosts> Ladder::Costs(const ShortPlanSpec& spec, int64_t* made) {
  using Measured = absl::StatusOr<ShortCosts>;
  const std::string key = ShortPlanKey(spec_.given, spec);
  std::promise<Measured> promise;
  std::shared_future<Measured> costs;
  bool mine = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [known, is_new] = costs_.try_emplace(key);
    if (is_new) known->second = promise.get_future().share();
    costs = known->second;
    mine = is_new;
  }
  if (mine) {
    ++*made;
    promise.set_value(MeasureShortPlan(spec_.source, spec_.given, spec));
  }
  return costs.get();
}

absl::StatusOr<std::vector<int>> Ladder::FindSlices(const proto::Recipe& group) {
  if (group.has_stage_layers()) {
    const auto& layers = group.stage_layers().layers();
    return std::vector<int>(layers.begin(), layers.end());
  }
  const auto key = std::pair(FindMesh(group).stages(), group.chunks());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = slices_.find(key);
    if (known != slices_.end()) return known->second;
  }
  ASSIGN_OR_RETURN(std::vector<int> slices,
                   BlocksBySlice(spec_.source, CandidateRequest(spec_.given, group)));
  const std::lock_guard<std::mutex> lock(mutex_);
  return slices_.emplace(key, std::move(slices)).first->second;
}

// The chunks of a stage are not balanced against each other.
bool Ladder::MayRebalance(const proto::Recipe& group) const {
  return FindMesh(group).stages() > 1 && group.chunks() == 1 && !fixed_.has_stage_layers();
}

// The least seconds of a micro-batch on the longest stage, with mixes that may fit; none where none
// may.
absl::StatusOr<std::optional<double>> Ladder::LongestStage(const GroupCosts& costs,
                                                           const proto::Recipe& group,
                                                           const std::vector<int>& blocks,
                                                           double capacity) const {
  std::optional<double> longest = RelaxedSeconds(costs, blocks, capacity);
  if (!MayRebalance(group)) return longest;
  const std::optional<double> other = RelaxedBalance(costs, blocks_, capacity);
  if (other) longest = std::min(longest.value_or(kNever), *other);
  return longest;
}

absl::Status Ladder::Bound(size_t i, bool of_one, Finding* finding) {
  const proto::Recipe& group = groups_[i];
  const auto find_spec = of_one ? &LeastSpecOfOne : &LeastSpec;
  ASSIGN_OR_RETURN(const std::vector<int> slices, FindSlices(group));
  const std::vector<int> blocks = ByStage(slices, group);
  GroupState& state = finding->state;
  const auto measure = [&](std::string_view policy, bool gathers) -> absl::StatusOr<ShortCosts> {
    const proto::Recipe all = WithPolicy(group, policy);
    ASSIGN_OR_RETURN(ShortCosts costs, Costs(find_spec(spec_.given, all), &finding->short_plans));
    costs = LeastOfGroup(spec_.given, group, costs, of_one);
    if (!gathers) return costs;
    ASSIGN_OR_RETURN(ShortCosts one,
                     Costs(LeastSpecOfOne(spec_.given, all), &finding->short_plans));
    return WithPartsKept(costs, LeastOfGroup(spec_.given, group, one, /*of_one=*/true));
  };
  ASSIGN_OR_RETURN(
      const ShortCosts one,
      Costs(find_spec(spec_.given, WithPolicy(group, kPolicies[0])), &finding->short_plans));
  state.bound = std::max(state.bound, FindLeastSeconds(spec_.given, group, one, blocks_, of_one));
  state.likely = kUsualRatio * state.bound;
  if (fixed_.has_recompute()) return absl::OkStatus();
  std::optional<double> longest, likely;  // of a stage: at least, and as a rule
  const auto take = [&](const GroupCosts& costs) -> absl::Status {
    ASSIGN_OR_RETURN(const std::optional<double> bound,
                     LongestStage(costs, group, blocks, capacity_ * (1 + kLeastBytesError)));
    ASSIGN_OR_RETURN(const std::optional<double> usual,
                     LongestStage(costs, group, blocks, capacity_ * kLikelyCapacity));
    if (bound) longest = std::min(longest.value_or(kNever), *bound);
    if (usual) likely = std::min(likely.value_or(kNever), *usual);
    return absl::OkStatus();
  };
  // None is all where it fits.
  ASSIGN_OR_RETURN(const ShortCosts plain, measure(kPolicies[0], false));
  ASSIGN_OR_RETURN(GroupCosts costs, GroupCosts::Make(spec_.given, group, {plain}, slices,
                                                      /*fits_orders=*/false));
  RETURN_IF_ERROR(take(costs));
  const bool fits = longest && likely;
  for (const bool gathers : {false, true}) {
    if (fits || (gathers && (of_one || !GathersActivations(group)))) break;
    std::vector<ShortCosts> measured;
    for (const std::string_view policy : kPolicies) {
      ASSIGN_OR_RETURN(measured.emplace_back(), measure(policy, gathers));
    }
    ASSIGN_OR_RETURN(costs, GroupCosts::Make(spec_.given, group, std::move(measured), slices,
                                             /*fits_orders=*/false));
    RETURN_IF_ERROR(take(costs));
  }
  if (!longest) {
    finding->too_large = LeastNeeded(group, costs, blocks, !of_one && GathersActivations(group));
    return absl::OkStatus();
  }
  const auto m = static_cast<double>(group.micro_batches());
  state.bound = std::max(state.bound, m * *longest);
  const double fill = static_cast<double>(FindMesh(group).stages() - 1) / group.chunks();
  state.likely = likely ? std::max(state.bound, (m + fill) * *likely) : kNever;
  if (of_one) return absl::OkStatus();
  const int most = *std::max_element(blocks.begin(), blocks.end());
  state.likely += m * most * FindShownExchanges(spec_.given, group, one);
  return absl::OkStatus();
}

// Recompute is fixed: what the words say is done to all blocks.
absl::Status Ladder::TellFixed(size_t i, const std::vector<int>& slices, Finding* finding) {
  const proto::Recipe& group = groups_[i];
  const std::vector<int> blocks = ByStage(slices, group);
  GroupState& state = finding->state;
  state.candidate = group;
  ASSIGN_OR_RETURN(const ShortCosts costs,
                   Costs(FindShortSpec(spec_.given, group), &finding->short_plans));
  ASSIGN_OR_RETURN(const GroupCosts all, GroupCosts::Make(spec_.given, group, {costs}, slices));
  ASSIGN_OR_RETURN(const std::optional<BlockMix> mix,
                   ChooseMix(all, blocks, capacity_ * (1 + kShortBytesError)));
  if (!mix) {
    finding->too_large = LeastNeeded(group, all, blocks);
    finding->too_large->candidate = group;
    return absl::OkStatus();
  }
  state.estimate = state.least_estimate = state.likely = mix->step_seconds;
  return absl::OkStatus();
}

// Tells if mixes may fit, and their least time, where only the policy none is measured. Where it
// fits, the others need not be.
absl::Status Ladder::TellPlain(size_t i, Finding* finding) {
  const proto::Recipe& group = groups_[i];
  ASSIGN_OR_RETURN(const std::vector<int> slices, FindSlices(group));
  ASSIGN_OR_RETURN(const ShortCosts plain,
                   Costs(FindShortSpec(spec_.given, group), &finding->short_plans));
  GroupState& state = finding->state;
  ASSIGN_OR_RETURN(GroupCosts costs, GroupCosts::Make(spec_.given, group, {plain}, slices));
  const double first = FirstCapacity(group, capacity_, state);
  ASSIGN_OR_RETURN(const std::optional<BlockMix> fits,
                   ChooseMix(costs, ByStage(slices, group), first));
  if (fits) {
    state.rung = Rung::kShort;
    RETURN_IF_ERROR(TellMix(i, costs, /*gathers=*/false, first, finding));
    state.bound = std::max(state.bound, state.least_estimate * (1 - kShortError));
    return absl::OkStatus();
  }
  state.rung = Rung::kPlain;
  ASSIGN_OR_RETURN(const ShortCosts least,
                   Costs(LeastSpec(spec_.given, group), &finding->short_plans));
  Better better(*finding);
  for (const bool gathers : {false, true}) {
    if (gathers && !GathersActivations(group)) continue;
    std::vector<ShortCosts> measured;
    for (const std::string_view policy : kPolicies) {
      ASSIGN_OR_RETURN(
          const ShortCosts more,
          Costs(LeastSpec(spec_.given, WithPolicy(group, policy, gathers)), &finding->short_plans));
      measured.push_back(AddPolicy(plain, least, more));
    }
    ASSIGN_OR_RETURN(costs, GroupCosts::Make(spec_.given, group, std::move(measured), slices));
    Finding mix{finding->state};
    RETURN_IF_ERROR(TellMix(i, costs, gathers, capacity_ * (1 + kPlainBytesError), &mix));
    better.Take(gathers, std::move(mix));
  }
  better.Move(finding);
  state.bound = std::max(state.bound, state.least_estimate * (1 - kPlainError));
  return absl::OkStatus();
}

// The best mix for a capacity, and what bounds all mixes that may fit the device, by short plans of
// each policy; of none alone where it fits.
absl::Status Ladder::Tell(size_t i, double capacity, Finding* finding) {
  const proto::Recipe& group = groups_[i];
  ASSIGN_OR_RETURN(const std::vector<int> slices, FindSlices(group));
  if (fixed_.has_recompute()) return TellFixed(i, slices, finding);
  const auto measure = [&](bool gathers, size_t policies) -> absl::StatusOr<GroupCosts> {
    std::vector<ShortCosts> measured;
    for (size_t p = 0; p < policies; ++p) {
      ASSIGN_OR_RETURN(measured.emplace_back(),
                       Costs(FindShortSpec(spec_.given, WithPolicy(group, kPolicies[p], gathers)),
                             &finding->short_plans));
    }
    return GroupCosts::Make(spec_.given, group, std::move(measured), slices);
  };
  ASSIGN_OR_RETURN(const GroupCosts plain, measure(/*gathers=*/false, 1));
  ASSIGN_OR_RETURN(const std::optional<BlockMix> fits,
                   ChooseMix(plain, ByStage(slices, group), capacity));
  if (fits) return TellMix(i, plain, /*gathers=*/false, capacity, finding);
  // The one that is likely to be better comes first: then the other may not be needed.
  const std::array<double, 2> least = finding->state.least_of_gathers;
  const bool again_first = GathersActivations(group) && least[1] < least[0];
  Better better(*finding);
  for (const bool gathers : {again_first, !again_first}) {
    if (gathers && !GathersActivations(group)) continue;
    if (better.IsBelow(least[gathers] * (1 - kPlainError))) continue;
    ASSIGN_OR_RETURN(const GroupCosts costs, measure(gathers, std::size(kPolicies)));
    Finding mix{finding->state};
    RETURN_IF_ERROR(TellMix(i, costs, gathers, capacity, &mix));
    better.Take(gathers, std::move(mix));
  }
  better.Move(finding);
  return absl::OkStatus();
}

absl::Status Ladder::TellMix(size_t i, const GroupCosts& costs, bool gathers, double capacity,
                             Finding* finding) const {
  const proto::Recipe& group = groups_[i];
  GroupState& state = finding->state;
  state.capacity = capacity;
  state.candidate = group;
  const std::vector<int>& slices = costs.slices();
  const std::vector<int> blocks = ByStage(slices, group);
  const double most = std::max(capacity, capacity_ * (1 + kShortBytesError));
  ASSIGN_OR_RETURN(std::optional<BlockMix> mix, ChooseMix(costs, blocks, capacity));
  ASSIGN_OR_RETURN(const std::optional<BlockMix> least,
                   ChooseMix(costs.WithLeastHeld(), blocks, most));
  state.least_estimate = least ? least->step_seconds : kNever;
  if (mix) *state.candidate.mutable_recompute() = MakeRecompute(mix->counts, slices, gathers);
  RETURN_IF_ERROR(Rebalance(costs, gathers, capacity, most, &mix, &state));
  if (!mix) finding->too_large = LeastNeeded(group, costs, blocks, gathers);
  state.estimate = state.likely = state.by_short_plans = mix ? mix->step_seconds : kNever;
  return absl::OkStatus();
}

// Other numbers of blocks on the stages, where they make a step shorter.
absl::Status Ladder::Rebalance(const GroupCosts& costs, bool gathers, double capacity, double most,
                               std::optional<BlockMix>* mix, GroupState* state) const {
  if (!MayRebalance(state->candidate)) return absl::OkStatus();
  const GroupCosts least = costs.WithLeastHeld();
  for (const bool bounds : {true, false}) {
    const double bytes = bounds ? most : capacity;
    const GroupCosts& held = bounds ? least : costs;
    const std::optional<std::vector<int>> blocks = BalanceBlocks(held, blocks_, bytes);
    if (!blocks) continue;
    ASSIGN_OR_RETURN(const std::optional<BlockMix> other, ChooseMix(held, *blocks, bytes));
    if (!other) continue;
    if (bounds) {
      state->least_estimate = std::min(state->least_estimate, other->step_seconds);
    } else if (!*mix || other->step_seconds < .999 * (*mix)->step_seconds) {
      *mix = other;
      proto::Recipe& candidate = state->candidate;
      *candidate.mutable_recompute() = MakeRecompute(other->counts, *blocks, gathers);
      candidate.mutable_stage_layers()->mutable_layers()->Assign(blocks->begin(), blocks->end());
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
