// A candidate of the search: a recipe that says the mesh, its order, and every choice whose row is
// Searched::kChosen. Beside what is given it is all that compile is told, so it has a line of
// flags, and that line compiled is the candidate's plan.
//
//   const proto::Recipe candidate = MakeCandidate(MakeRecipe(
//       "--mesh=pipe=8,data=2,tensor=4 --micro_batches=64 --recompute=full:3,attention"));
//   CandidateFlags(candidate)   ->  "--mesh=pipe=8,data=2,tensor=4 --micro_batches=64
//                                    --recompute=full:3,attention"
//
// Candidates that differ only in what each block does (recompute, stage_layers) are one plan group:
// they have the same mesh, micro-batches, schedule and layouts. A group is written as the candidate
// in which these two are as fixed, else recompute is none and layers are balanced.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "compiler/compile.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {

// The rows of what a candidate says, in the order of its flags.
std::span<const Row> CandidateRows();

// The candidate that `said` means, with the defaults of what it does not say. Without stage_layers
// they are balanced.
proto::Recipe MakeCandidate(const proto::Recipe& said);

// Equal where both recipes say the same.
bool IsSame(const proto::Recipe& a, const proto::Recipe& b);
bool IsSameGroup(proto::Recipe a, proto::Recipe b);

Mesh FindMesh(const proto::Recipe& candidate);

// The degree of an axis with all its factors: of "data" in "data=8x4", 32; 1 without such an axis.
int FindDegree(const Mesh& mesh, std::string_view axis);

// True if each block gathers parts of activations, so that its backward can gather them again.
bool GathersActivations(const proto::Recipe& candidate);

// `given` with what the candidate says.
PlanRequest CandidateRequest(const PlanRequest& given, const proto::Recipe& candidate);

// The flags that say the candidate to `oneflow compile`, without those that have their default. The
// mesh is always said, because a graph may have a default of its own.
std::string CandidateFlags(proto::Recipe candidate);

// The candidate's choices that decide the bits of a run (docs/sharding.md, docs/design.md,
// same inputs, same bits): equal texts, equal bits. The axes but for pipe, with their factors,
// micro-batches, whether positions are split on tensor axes, and how gradients are summed.
std::string BitsKey(const proto::Recipe& candidate);

}  // namespace oneflow
