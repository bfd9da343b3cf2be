// The upper rung of the ladder: plans, compiled and simulated, and the mixes that are tried next.
#include <algorithm>
#include <utility>

#include "compiler/memory/plan_memory.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/stop.h"
#include "oneflow_core/plan/fingerprint.h"
#include "planning/recipe/make_plan.h"
#include "planning/search/evaluate.h"
#include "planning/search/ladder.h"

namespace oneflow {
namespace {

// A mix that is tried after one that needed too much may need so much less; and so many are tried.
constexpr double kTighter = 0.99;
constexpr int kMostTries = 6;
// A mix for more memory than that of a plan which fits is tried for such a gain.
constexpr double kGain = 0.9995;

}  // namespace

PlanRequest WithAnyMemory(PlanRequest request) {
  request.cluster.mutable_device()->clear_memory_bytes();
  request.recipe.clear_host_memory();
  return request;
}

absl::Status Ladder::CompileCandidate(size_t i, Finding* finding) {
  GroupState& state = finding->state;
  const PlanRequest options = WithAnyMemory(CandidateRequest(spec_.given, state.candidate));
  ASSIGN_OR_RETURN(Planned planned, MakePlan(spec_.source, options));
  proto::Plan& plan = planned.plan;
  ASSIGN_OR_RETURN(FoundPlan found, EvaluatePlan(plan, state.candidate, options.cluster));
  const auto bytes = static_cast<double>(found.bytes);
  finding->packing = bytes / state.bytes;
  const bool fits = capacity_ <= 0 || bytes <= capacity_;
  if (!fits || !CheckHostCapacity(plan, options.cluster, spec_.given.recipe.host_memory()).ok()) {
    Tighten(i, bytes, finding);
    return CheckStop(spec_.given.stop);  // a mix that was not found in time proves nothing
  }
  // The error of the short plans is that of all mixes, so theirs are as much longer or shorter.
  const double error = state.leanest ? 1 : found.step_seconds / state.seconds;
  state.error *= error;
  state.bound = std::max(state.bound, std::min(found.step_seconds, error * state.least_seconds));
  state.compiled = std::min(state.compiled, found.step_seconds);
  state.rung = Rung::kCompiled;
  state.seconds = state.compiled;
  state.bytes = bytes;
  state.fits = std::max(state.fits, state.capacity);
  // Gaps may be smaller than they were expected to be: then there is room for a faster mix.
  if (!fixed_.has_recompute() && !groups_[i].uniform && capacity_ > 0) {
    const double more = state.capacity * capacity_ / bytes;
    TryNext(i, more < state.too_much ? more : (state.fits + state.too_much) / 2, finding);
  }
  // It fits, so with the capacities it is made, too, and says them.
  *plan.mutable_cluster() = spec_.given.cluster;
  CopyField(*FindRow(RecipeRows(), "host_memory"), spec_.given.recipe, plan.mutable_recipe());
  plan.set_fingerprint(Fingerprint(plan));
  finding->found = std::move(found);
  finding->plan = std::move(plan);
  return absl::OkStatus();
}

// The next mix after one that was to fit and needs `needed`; where there is none, and none fitted,
// all blocks with the last policy, whatever short plans say of it, or else nothing fits.
void Ladder::Tighten(size_t i, double needed, Finding* finding) {
  finding->did_not_fit = true;
  GroupState& state = finding->state;
  state.too_much = std::min(state.too_much, state.capacity);
  const double less = kTighter * state.capacity * std::min(1.0, capacity_ / needed);
  const bool last = fixed_.has_recompute() || (state.leanest && state.compiled == kNever);
  if (!last && TryNext(i, std::max(less, state.fits), finding)) return;
  if (state.compiled < kNever) {
    state.rung = Rung::kCompiled;
    state.seconds = state.compiled;
    return;
  }
  proto::Recipe leanest =
      WithPolicy(groups_[i].group, std::end(kPolicies)[-1], GathersActivations(groups_[i].group));
  const bool near = needed <= capacity_ * (1 + ShortBytesError(classes_));
  if (near && !last && !IsSame(leanest, state.candidate)) {
    state.candidate = std::move(leanest);
    state.leanest = state.tight = true;
    state.least_seconds = std::min(state.least_seconds, state.bound);
    return;
  }
  finding->too_large = {state.candidate, static_cast<int64_t>(needed), /*bounded=*/false};
}

// Chooses a mix for `capacity`, which is to be compiled next; and if that is the one that was tried
// last, or no faster than a plan that fits, for less or more, as often as mixes may be tried.
bool Ladder::TryNext(size_t i, double capacity, Finding* finding) {
  GroupState& state = finding->state;
  while (++state.tries < kMostTries) {
    Finding next{state};
    const absl::Status status = Tell(i, capacity, &next);
    finding->short_plans += next.short_plans;
    if (!status.ok()) return false;
    if (next.too_large) {
      if (state.too_much == kNever) return false;
      capacity = (capacity + state.too_much) / 2;
      continue;
    }
    const bool slower = next.state.seconds > kGain * state.compiled;
    if (!slower && !IsSame(next.state.candidate, state.candidate)) {
      next.state.rung = Rung::kEstimated;
      next.state.leanest = false;
      state = std::move(next.state);
      return true;
    }
    (slower ? state.fits : state.too_much) = capacity;
    if (state.compiled == kNever) {
      capacity *= kTighter;
    } else if (state.too_much == kNever) {
      return false;
    } else {
      capacity = (state.fits + state.too_much) / 2;
    }
  }
  return false;
}

}  // namespace oneflow
