// A candidate of the search: one value of everything that is searched. It is what the flags of
// `oneflow compile` say beside those that are given, so it has a line of such flags, and that line
// compiled is the candidate's plan.
//
//   PlanFamily family{.mesh = *ParseMesh("pipe=8,data=2,tensor=4"), .micro_batches = 64};
//   const Candidate candidate{family, {.recompute = "full:3,attention"}};
//   CandidateFlags(candidate)   ->  "--mesh=pipe=8,data=2,tensor=4 --micro_batches=64
//                                    --recompute=full:3,attention"
//
// Candidates that differ only in what each block does (recompute, layers of a stage) are one
// family: they have the same mesh, micro-batches, schedule and layouts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {

struct PlanFamily {
  Mesh mesh;  // all axes of more than one device, pipe first
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";  // "1f1b", "interleaved", "zero_bubble", or what a user fixes
  int chunks = 1;                 // slices of the model on each stage
  int64_t extra_in_flight = 0;    // 0, or what a user fixes
  bool split_positions = false;   // --sequence_parallel
  proto::Shard shard = {};
  proto::Offload offload = {};
  bool keep_axis_order = true;  // else compile orders the axes for the cluster
  bool operator==(const PlanFamily& other) const;
};

struct BlockChoice {
  std::string recompute;          // the words of --recompute; empty: none
  std::vector<int> stage_layers;  // empty: balanced
  bool operator==(const BlockChoice&) const = default;
};

struct Candidate {
  PlanFamily family;
  BlockChoice blocks;
  bool operator==(const Candidate&) const = default;
};

// The degree of an axis with all its factors: of "data" in "data=8x4", 32; 1 without such an axis.
int FindDegree(const Mesh& mesh, std::string_view axis);

// Whether each block gathers parts of activations, so that its backward can gather them again.
bool GathersActivations(const PlanFamily& family);

// `given` with what the candidate says. What else a sharding and an offload say stays as given:
// when weights are gathered and gradients are reduced, and where the update runs.
PlanRequest CandidateOptions(const PlanRequest& given, const Candidate& candidate);

// The flags that say the candidate to `oneflow compile`, without those that have their default. The
// mesh is always said, because a graph may have a default of its own.
std::string CandidateFlags(const Candidate& candidate);

// What decides the bits of a run, of the candidate's choices (docs/sharding.md, docs/design.md,
// same inputs, same bits): equal texts, equal bits. The axes but for pipe, with their factors,
// micro-batches, whether positions are split on tensor axes, and how gradients are summed.
std::string BitsKey(const Candidate& candidate);

}  // namespace oneflow
