// The first rung of the search: seconds and bytes below which no plan of a group is.
//
// One device, or the devices that one part of the batch is split over, compute a short model alone:
// no stages, nothing sharded, nothing recomputed. A plan of the group does all of that work, too,
// and more. For M micro-batches that take W seconds through P stages of v chunks,
//
//   step >= W / (v (1 - q^P)),  q = 1 - 1 / (v M).
//
// For a stage s begins when those before it have done their first forward, and its last backward
// goes through them again: step >= M t(s) + S(s) / v with the sum S(s) of t(i) over i < s. So
// S(s + 1) <= S(s) q + step / M, which grows with S(s), and W = S(P) is at most what equality on
// each stage gives. Where backward and weights are apart (zero bubble), steps may overlap, and
// M W / P alone holds. Where recompute is needed to fit a memory, the longest stage of any mix that
// may fit bounds the step (relaxed_mix.h).
#pragma once

#include "compiler/compile.h"
#include "planning/search/candidate.h"
#include "planning/search/short_plan.h"

namespace oneflow {

// The least bytes may be above those of a plan by so much, where parts do not divide evenly.
inline constexpr double kLeastBytesError = 0.1;

// The devices that a part of the batch is split over, alone.
ShortPlanSpec LeastSpec(const PlanRequest& given, const proto::Recipe& group);
// One device with all that these compute.
ShortPlanSpec LeastSpecOfOne(const PlanRequest& given, const proto::Recipe& group);

// The costs of a group's stages: blocks alone, without what the first and the last have beside
// them, without exchanges of data parts and transfers; bytes as if all were split that may be. The
// group's GroupCosts of these bound seconds and bytes of every mix of policies. `costs`: of
// LeastSpec; or, `of_one`, of LeastSpecOfOne: a looser bound, which needs no plan for the group's
// degrees, since kernels that split their work compute no faster.
ShortCosts LeastOfGroup(const PlanRequest& given, const proto::Recipe& group,
                        const ShortCosts& costs, bool of_one);

// `least` with the bytes of activations of `of_one`, both of LeastOfGroup: those of plans whose
// backward gathers activations again, which keep parts of them only, and are no faster.
ShortCosts WithPartsKept(ShortCosts least, const ShortCosts& of_one);

// The time that a micro-batch takes longer, as a rule, for each block of a stage, because its
// gradients are summed into parts, and its weights gathered for the forward and for the backward,
// as far as the group shards them. Most of that overlaps with compute, so it bounds nothing. 0 with
// one micro-batch.
double FindShownExchanges(const PlanRequest& given, const proto::Recipe& group,
                          const ShortCosts& costs);

// By the formula above, with recompute none. `blocks`: of the model.
double FindLeastSeconds(const PlanRequest& given, const proto::Recipe& group,
                        const ShortCosts& costs, int blocks, bool of_one);

}  // namespace oneflow
