#include "planning/search/ladder.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "compiler/compile.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/model/annotate_recompute.h"
#include "planning/recipe/shorten_model.h"
#include "planning/search/blocks_by_slice.h"
#include "planning/search/formula.h"
#include "planning/search/ordinary.h"

namespace oneflow {
namespace {

// Relative errors: a short plan may be so far above the compiled one, in seconds and in bytes.
// extrapolation_test.
constexpr double kShortError = 0.02, kShortBytesError = 0.03;
// The same of models whose blocks are of several classes. Each is measured alone, so that the mean
// does not know what one class's kernels hide of another's exchanges; and where weights are
// gathered ahead, a large block beside small ones counts as beside its like.
constexpr double kClassesError = 0.04, kClassesBytesError = 0.25;

double ShortError(const BlockClasses& classes) {
  return classes.size() > 1 ? kClassesError : kShortError;
}
// Formulas may say of a plan that fits that it needs so much more than there is.
constexpr double kFormulaBytesError = 0.05;

constexpr size_t kAllPolicies = std::size(kPolicies);

// All blocks with the last policy.
std::vector<KindCounts> LeanestMix(const GroupCosts& costs,
                                   const std::vector<ClassCounts>& blocks) {
  std::vector<KindCounts> counts;
  for (const ClassCounts& n : blocks) counts.push_back(costs.WithPolicy(n, costs.policies() - 1));
  return counts;
}

// The fastest mix of one policy for all blocks that fits.
absl::StatusOr<std::optional<BlockMix>> ChooseUniform(const GroupCosts& costs,
                                                      const std::vector<ClassCounts>& blocks,
                                                      double capacity) {
  std::optional<BlockMix> best;
  for (int p = 0; p < costs.policies(); ++p) {
    BlockMix mix;
    for (int s = 0; s < costs.stages(); ++s) {
      mix.counts.push_back(costs.WithPolicy(blocks[s], p));
      mix.bytes = std::max(mix.bytes, costs.Bytes(s, mix.counts[s]));
    }
    if (capacity > 0 && mix.bytes > capacity) continue;
    ASSIGN_OR_RETURN(mix.step_seconds, costs.StepSeconds(mix.counts));
    if (!best || mix.step_seconds < best->step_seconds) best = std::move(mix);
  }
  return best;
}

// The costs, by policy, of the one that is fixed for all blocks; of all policies where none is.
std::vector<ShortCosts> KeepFixed(const std::vector<ShortCosts>& costs,
                                  const proto::Recipe& fixed) {
  if (!fixed.has_recompute() || costs.empty()) return costs;
  const auto& terms = fixed.recompute().term();
  const auto* policy =
      terms.empty() ? std::begin(kPolicies)
                    : std::find(std::begin(kPolicies), std::end(kPolicies), terms[0].policy());
  return {costs[policy == std::end(kPolicies) ? 0 : policy - std::begin(kPolicies)]};
}

// By class, what is known of a model whose blocks are all of it.
std::vector<ModelShape> FindClassShapes(const proto::Graph& graph, const ModelShape& all,
                                        int classes) {
  std::vector<ModelShape> shapes(classes, all);
  for (int c = 0; c < classes && classes > 1; ++c) {
    const absl::StatusOr<proto::Graph> alike = WithBlocks(graph, 1, c);
    if (alike.ok()) shapes[c] = FindModelShape(*alike);  // else its short plans say why
  }
  return shapes;
}

}  // namespace

double ShortBytesError(const BlockClasses& classes) {
  return classes.size() > 1 ? kClassesBytesError : kShortBytesError;
}

// [gathers][kind]
struct Ladder::KindCosts {
  std::vector<const ShortCosts*> one;                 // of one device, by kind
  std::array<std::vector<ShortCosts>, 2> likely;      // by formulas
  std::array<std::map<size_t, ShortCosts>, 2> costs;  // by short plans, of those that have some

  // The best known costs of a kind.
  ShortCosts Best(bool gathers, size_t kind) const {
    const ShortCosts& formula = likely[gathers][kind];
    if (const auto at = costs[gathers].find(kind); at != costs[gathers].end()) return at->second;
    for (const bool other : {gathers, !gathers}) {
      for (const auto& [k, measured] : costs[other]) {
        if (k / kAllPolicies != kind / kAllPolicies) continue;  // of another class
        return WithOtherPolicy(measured, likely[other][k], formula);
      }
    }
    return formula;
  }
};

std::vector<GroupToSearch> ListToSearch(const SearchSpec& spec,
                                        const std::vector<proto::Recipe>& groups) {
  std::vector<GroupToSearch> all;
  for (const proto::Recipe& group : FindOrdinary(spec, groups)) all.push_back({group, true});
  for (const proto::Recipe& group : groups) all.push_back({group, false});
  return all;
}

Ladder::Ladder(const SearchSpec& spec, std::vector<GroupToSearch> groups)
    : spec_(spec),
      fixed_(spec.fixed.recipe),
      groups_(std::move(groups)),
      shape_(FindModelShape(spec.source.graph)),
      classes_(FindBlockClasses(spec.source.graph)),
      blocks_(classes_.CountBlocks()),
      class_shapes_(FindClassShapes(spec.source.graph, shape_, classes_.size())),
      capacity_(static_cast<double>(UsableBytes(spec.given.cluster.device()))) {}

Finding Ladder::List(size_t i, double packing) {
  Finding finding;
  const proto::Recipe& group = groups_[i].group;
  const auto list = [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckCounts(group.recompute(), FindMesh(group).stages(), group.chunks()));
    ASSIGN_OR_RETURN(const KindCosts formulas, FindFormulas(i, &finding.short_plans));
    GroupState& state = finding.state;
    state.bound = FindLeastSeconds(spec_.given, group, formulas.one, blocks_);
    const double least = FindLeastBytes(spec_.given, group, formulas.one, blocks_);
    if (capacity_ > 0 && least > capacity_) {
      const bool fixed = fixed_.has_recompute();
      finding.too_large = {
          fixed ? group : WithPolicy(group, std::end(kPolicies)[-1], GathersActivations(group)),
          static_cast<int64_t>(least)};
    }
    for (const bool gathers : {false, true}) {
      if (gathers && !GathersActivations(group)) continue;
      const std::vector<ShortCosts> mean = FindMeanCosts(formulas.likely[gathers], blocks_);
      const FormulaPlan plan =
          FindFormulaPlan(group, KeepFixed(mean, fixed_), shape_.blocks, groups_[i].uniform,
                          capacity_ / packing * (1 + kFormulaBytesError));
      const bool smaller = plan.seconds == state.seconds && plan.bytes < state.bytes;
      if (gathers && plan.seconds >= state.seconds && !smaller) continue;
      state.seconds = std::max(state.bound, plan.seconds);
      state.bytes = plan.bytes;
    }
    return absl::OkStatus();
  };
  finding.refusal = list();
  return finding;
}

Finding Ladder::Climb(size_t i, const GroupState& state, double packing) {
  Finding finding{state};
  GroupState& next = finding.state;
  if (state.rung == Rung::kEstimated) {
    finding.refusal = CompileCandidate(i, &finding);
    return finding;
  }
  finding.refusal = Tell(i, capacity_ / packing, &finding);
  // Packing may leave smaller gaps, and short plans may say too much of the leanest plan.
  const double least = finding.too_large ? static_cast<double>(finding.too_large->bytes) + 1 : 0;
  if (finding.too_large && least <= capacity_ * (1 + ShortBytesError(classes_))) {
    next = state;
    finding.too_large.reset();
    finding.refusal = Tell(i, std::max(capacity_, least), &finding);
    next.tight = true;
    // Orders that are fitted to a mix may hold more than those it was chosen for. Then the leanest
    // plan itself is compiled, behind all others.
    if (finding.refusal.ok() && finding.too_large) {
      finding.too_large.reset();
      next.leanest = true;
      next.least_seconds = std::min(next.least_seconds, next.bound);
      next.seconds = 2 * std::max(next.bound, state.seconds < kNever ? state.seconds : 0);
    }
  }
  next.rung = Rung::kEstimated;
  next.bound = std::max(next.bound, next.least_seconds * (1 - ShortError(classes_)));
  return finding;
}

const absl::StatusOr<ShortCosts>& Ladder::Costs(const ShortPlanSpec& spec, int64_t* made) {
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
  return costs.get();  // which the map keeps
}

absl::StatusOr<std::vector<ClassCounts>> Ladder::FindSlices(const proto::Recipe& group) {
  if (group.has_stage_layers()) {
    const auto& layers = group.stage_layers().layers();
    return CountClasses(classes_.class_of, {layers.begin(), layers.end()});
  }
  const auto key = std::pair(FindMesh(group).stages(), group.chunks());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = slices_.find(key);
    if (known != slices_.end()) return known->second;
  }
  ASSIGN_OR_RETURN(const std::vector<int> slices,
                   BlocksBySlice(spec_.source, CandidateRequest(spec_.given, group)));
  const std::lock_guard<std::mutex> lock(mutex_);
  return slices_.emplace(key, CountClasses(classes_.class_of, slices)).first->second;
}

// The chunks of a stage are not balanced against each other.
bool Ladder::MayRebalance(size_t i) const {
  const proto::Recipe& group = groups_[i].group;
  return !groups_[i].uniform && !fixed_.has_recompute() && FindMesh(group).stages() > 1 &&
         group.chunks() == 1 && !fixed_.has_stage_layers();
}

absl::StatusOr<Ladder::KindCosts> Ladder::FindFormulas(size_t i, int64_t* made) {
  const proto::Recipe& group = groups_[i].group;
  KindCosts found;
  for (int c = 0; c < std::ssize(blocks_); ++c) {
    for (const std::string_view policy : kPolicies) {
      const auto& one = Costs(OneDeviceSpec(spec_.given, WithPolicy(group, policy), c), made);
      RETURN_IF_ERROR(one.status());
      found.one.push_back(&*one);
      for (const bool gathers : {false, true}) {
        if (gathers && !GathersActivations(group)) continue;
        found.likely[gathers].push_back(FindLikelyCosts(spec_.given, class_shapes_[c],
                                                        WithPolicy(group, policy, gathers), *one));
      }
    }
  }
  return found;
}

// Of each stage, the kinds of its blocks as the words of a fixed recompute have them. Empty where
// it is not fixed.
std::vector<KindCounts> Ladder::CountFixed(const std::vector<ClassCounts>& slices,
                                           int stages) const {
  if (!fixed_.has_recompute()) return {};
  std::vector<KindCounts> counts(stages, KindCounts(blocks_.size() * kAllPolicies, 0));
  auto next = classes_.class_of.begin();
  for (int slice = 0; slice < std::ssize(slices); ++slice) {
    const auto end = next + std::accumulate(slices[slice].begin(), slices[slice].end(), 0);
    const std::vector<int> of(next, end);
    const std::vector<std::string> policies = ChoosePolicies(fixed_.recompute(), slice, of);
    for (size_t b = 0; b < of.size(); ++b) {
      const auto policy = std::find(std::begin(kPolicies), std::end(kPolicies), policies[b]);
      ++counts[slice % stages][of[b] * kAllPolicies + (policy - std::begin(kPolicies))];
    }
    next = end;
  }
  return counts;
}

// The best mix for a capacity, and what bounds all mixes that may fit the device, by short plans of
// each policy that the mix has.
absl::Status Ladder::Tell(size_t i, double capacity, Finding* finding) {
  const proto::Recipe& group = groups_[i].group;
  ASSIGN_OR_RETURN(const std::vector<ClassCounts> slices, FindSlices(group));
  const std::vector<KindCounts> fixed = CountFixed(slices, FindMesh(group).stages());
  ASSIGN_OR_RETURN(KindCosts costs, FindFormulas(i, &finding->short_plans));
  const bool may_gather = GathersActivations(group);
  // Another kind may come in when one is measured, at most until all are.
  while (true) {
    std::optional<Finding> best;
    std::vector<KindCounts> used;  // by the best
    for (const bool gathers : {false, true}) {
      if (gathers && !may_gather) continue;
      if (!fixed.empty() && gathers != (may_gather && group.recompute().gather())) continue;
      std::vector<ShortCosts> known;
      for (size_t k = 0; k < costs.one.size(); ++k) known.push_back(costs.Best(gathers, k));
      ASSIGN_OR_RETURN(const GroupCosts all,
                       GroupCosts::Make(spec_.given, group, std::move(known), slices));
      Finding mix{finding->state};
      std::vector<KindCounts> counts;
      RETURN_IF_ERROR(TellMix(i, all, fixed, gathers, capacity, &mix, &counts));
      const double least =
          std::min(mix.state.least_seconds, best ? best->state.least_seconds : kNever);
      const bool smaller =
          best && best->too_large && mix.too_large && mix.too_large->bytes < best->too_large->bytes;
      if (!best || smaller || mix.state.seconds < best->state.seconds) {
        best = std::move(mix);
        used = std::move(counts);
      }
      best->state.least_seconds = least;
    }
    const bool gathers = may_gather && best->state.candidate.recompute().gather();
    bool all_measured = true;
    for (size_t k = 0; k < costs.one.size(); ++k) {
      const auto has = [&](const KindCounts& stage) { return stage[k] > 0; };
      if (std::none_of(used.begin(), used.end(), has) || costs.costs[gathers].contains(k)) continue;
      const proto::Recipe policy = WithPolicy(group, kPolicies[k % kAllPolicies], gathers);
      const ShortPlanSpec spec =
          FindShortSpec(spec_.given, policy, static_cast<int>(k / kAllPolicies));
      ASSIGN_OR_RETURN(costs.costs[gathers][k], Costs(spec, &finding->short_plans));
      all_measured = false;
    }
    if (!all_measured) continue;
    finding->state = std::move(best->state);
    finding->too_large = std::move(best->too_large);
    return absl::OkStatus();
  }
}

// `fixed`: the only mix, or empty. `counts`: the kinds of the blocks of its candidate.
absl::Status Ladder::TellMix(size_t i, const GroupCosts& costs,
                             const std::vector<KindCounts>& fixed, bool gathers, double capacity,
                             Finding* finding, std::vector<KindCounts>* counts) const {
  const proto::Recipe& group = groups_[i].group;
  GroupState& state = finding->state;
  state.capacity = capacity;
  state.candidate = group;
  std::vector<ClassCounts> blocks;
  for (int s = 0; s < costs.stages(); ++s) blocks.push_back(costs.BlocksOfStage(s));
  const double most = std::max(capacity, capacity_ * (1 + ShortBytesError(classes_)));
  const auto choose = [&](const GroupCosts& of, double bytes) {
    if (!fixed.empty()) return TakeMix(of, fixed, bytes);
    return groups_[i].uniform ? ChooseUniform(of, blocks, bytes) : ChooseMix(of, blocks, bytes);
  };
  ASSIGN_OR_RETURN(std::optional<BlockMix> mix, choose(costs, capacity));
  ASSIGN_OR_RETURN(const std::optional<BlockMix> least, choose(costs.WithLeastHeld(), most));
  state.least_seconds = least ? state.error * least->step_seconds : kNever;
  if (mix && fixed.empty()) {
    *state.candidate.mutable_recompute() = MakeRecompute(mix->counts, costs.slices(), gathers);
  }
  if (MayRebalance(i)) RETURN_IF_ERROR(Rebalance(costs, gathers, capacity, &mix, &state));
  state.seconds = mix ? state.error * mix->step_seconds : kNever;
  *counts = mix ? mix->counts : fixed.empty() ? LeanestMix(costs, blocks) : fixed;
  state.bytes = mix ? mix->bytes : FindBytes(costs, *counts);
  if (mix) return absl::OkStatus();
  if (fixed.empty()) state.candidate = WithPolicy(group, std::end(kPolicies)[-1], gathers);
  finding->too_large = {state.candidate, static_cast<int64_t>(state.bytes), /*bounded=*/false};
  return absl::OkStatus();
}

// Other numbers of blocks on the stages, where they make a step shorter.
absl::Status Ladder::Rebalance(const GroupCosts& costs, bool gathers, double capacity,
                               std::optional<BlockMix>* mix, GroupState* state) const {
  const double most = std::max(capacity, capacity_ * (1 + ShortBytesError(classes_)));
  const GroupCosts least = costs.WithLeastHeld();
  for (const bool bounds : {true, false}) {
    const double bytes = bounds ? most : capacity;
    const GroupCosts& held = bounds ? least : costs;
    const std::optional<std::vector<int>> layers = BalanceBlocks(held, classes_.class_of, bytes);
    if (!layers) continue;
    const std::vector<ClassCounts> blocks = CountClasses(classes_.class_of, *layers);
    ASSIGN_OR_RETURN(const std::optional<BlockMix> other, ChooseMix(held, blocks, bytes));
    if (!other) continue;
    if (bounds) {
      state->least_seconds = std::min(state->least_seconds, state->error * other->step_seconds);
    } else if (!*mix || other->step_seconds < .999 * (*mix)->step_seconds) {
      *mix = other;
      proto::Recipe& candidate = state->candidate;
      *candidate.mutable_recompute() = MakeRecompute(other->counts, blocks, gathers);
      candidate.mutable_stage_layers()->mutable_layers()->Assign(layers->begin(), layers->end());
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
