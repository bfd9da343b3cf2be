// A candidate of the search: one value of everything that is searched. It is what the flags of
// `oneflow compile` say beside those that are given, so it has a line of such flags, and that line
// compiled is the candidate's plan.
//
//   Family family{.mesh = *ParseMesh("pipe=8,data=2,tensor=4"), .micro_batches = 64};
//   const Candidate candidate{family, {.recompute = "full:3,attention"}};
//   CandidateFlags(candidate)   ->  "--mesh=pipe=8,data=2,tensor=4 --micro_batches=64
//                                    --schedule=1f1b --recompute=full:3,attention"
//
// Candidates that differ only in what each block does (recompute, layers of a stage) are one
// family: they have the same mesh, micro-batches, schedule and layouts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "oneflow_core/model/offload.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {

struct Family {
  Mesh mesh;  // all axes of more than one device, pipe first
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";  // "1f1b", "interleaved" or "zero_bubble"
  int chunks = 1;                 // slices of the model on each stage
  int64_t extra_in_flight = 0;    // of zero_bubble
  bool split_positions = false;   // --sequence_parallel
  Sharding shard = {};
  Offload offload = {};
  bool operator==(const Family&) const = default;
};

struct BlockChoice {
  std::string recompute;          // the words of --recompute; empty: none
  std::vector<int> stage_layers;  // empty: balanced
  bool operator==(const BlockChoice&) const = default;
};

struct Candidate {
  Family family;
  BlockChoice blocks;
  bool operator==(const Candidate&) const = default;
};

// The degree of an axis with all its factors: of "data" in "data=8x4", 32; 1 without such an axis.
int DegreeOf(const Mesh& mesh, const std::string& axis);

// `given` with what the candidate says.
CompileOptions CandidateOptions(const CompileOptions& given, const Candidate& candidate);

// The flags that say the candidate to `oneflow compile`, without those that have their default.
std::string CandidateFlags(const Candidate& candidate);

// What decides the bits of a run, of the candidate's choices (docs/design.md, same inputs, same
// bits): equal texts, equal bits. Data, tensor, context and expert degrees, micro-batches, and
// where gradients are reduced.
std::string BitsKey(const Candidate& candidate);

}  // namespace oneflow
