// The layouts of the tensors of a variable on axes that split tokens (data, expert, context), and
// the times of their exchanges.
//
// A variable has four layouts: of its states (f32 master and moments), of its gradient as it
// accumulates, and of its weight at rest and as readers take it. The last is the layout in which a
// model computes: constraints and infer_sbp decide it as if nothing were split here. The other
// three are split along one dimension of the variable over the axes below, each list within the one
// before it:
//
//   states ⊇ gradients ⊇ weights
//
// A weight is gathered once a step over the axes of `states` that `weights` lacks, and for each use
// (or once a micro-batch) over those of `weights`. A gradient is reduced as a micro-batch ends over
// the axes of `gradients`, and once a step over all others.
//
//   none        {}                                              every device holds everything
//   states      {states: data}                                  ZeRO 1
//   gradients   {states: data, gradients: data}                 ZeRO 2
//   weights     {states: data, gradients: data, weights: data}  ZeRO 3, FSDP
//
// With data=8x16, "states:data,gradients:data,weights:data.1" splits weights inside groups of 16
// and gathers them over the 8 groups once a step (HSDP, MiCS).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {

struct Sharding {
  // Names of axes: "data" stands for all its factors, "data.1" for one.
  std::vector<std::string> states, gradients, weights;
  // Axes over which gradients are reduced as a micro-batch ends although no axis of `gradients`
  // splits them: each device keeps the sum.
  std::vector<std::string> reduced;
  enum class Gather {
    kEachUse,         // of two uses one after the other, the first
    kEachMicroBatch,  // once for a forward and its backward
    kOnce,            // once a step; the result is kept
  };
  Gather gather = Gather::kEachUse;  // over the axes of `weights`

  bool empty() const { return states.empty() && reduced.empty(); }
  bool operator==(const Sharding&) const = default;
};

// True if an axis of this name, or of which it is a factor (data.1), splits tokens: the batch
// (data, expert) or positions (context).
bool SplitsTokens(std::string_view axis);

Sharding ShardStates();
Sharding ShardGradients();
Sharding ShardWeights();

// Parses a short name, or "states:AXES,gradients:AXES,weights:AXES" with axes joined by '+', of
// which parts may be left out. Errors name `flag`.
absl::StatusOr<Sharding> ParseSharding(const std::string& flag, std::string_view text);
// Prints the same words: a short name if there is one.
std::string ToString(const Sharding& sharding);

// Parses "once" or "each_micro_batch[:AXES]": the axes of Sharding::reduced ("data" without AXES).
absl::StatusOr<std::vector<std::string>> ParseReduce(const std::string& flag,
                                                     std::string_view text);
// Parses "each_use", "each_micro_batch" or "once".
absl::StatusOr<Sharding::Gather> ParseGather(const std::string& flag, std::string_view text);

// Returns it with the names of the mesh's axes in place of "data". Axes of one device are left out,
// and so are conventional names that the mesh lacks. Errors: an axis that does not split tokens;
// weights on an axis without gradients, gradients on one without states.
absl::StatusOr<Sharding> OnMesh(const Sharding& sharding, const Mesh& mesh);

}  // namespace oneflow
