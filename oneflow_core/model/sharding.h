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
// A variable that is frozen has a weight alone, which is split over the axes of `weights`, whatever
// the other lists have: --shard=weights:data splits what is frozen, and nothing that is trained.
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
#include "proto/recipe.pb.h"

namespace oneflow {

// The layouts on a mesh: its own names of axes, those of one device left out.
struct Sharding {
  std::vector<std::string> states, gradients, weights;
  // Weights at rest of variables that are frozen: they have neither states nor gradients.
  std::vector<std::string> frozen;
  // Axes over which gradients are reduced as a micro-batch ends although no axis of `gradients`
  // splits them: each device keeps the sum.
  std::vector<std::string> reduced;

  bool empty() const { return states.empty() && reduced.empty() && frozen.empty(); }
};

// True if an axis of this name, or of which it is a factor (data.1), splits tokens: the batch
// (data, expert) or positions (context).
bool SplitsTokens(std::string_view axis);

// The recipe's `shard` and `reduce`, with the names of the mesh's axes in place of "data". Axes of
// one device are left out, and so are conventional names that the mesh lacks. Errors: an axis that
// does not split tokens; weights on an axis without gradients, gradients on one without states.
// `has_frozen`: the graph has variables that are frozen, whose weights may be split over any axis;
// `weights` are then those axes that gradients have, too.
absl::StatusOr<Sharding> OnMesh(const proto::Recipe& recipe, const Mesh& mesh,
                                bool has_frozen = false);

}  // namespace oneflow
