// Chooses how every tensor lies on every mesh axis (the stage axis aside): for each axis one row of
// each op's table of 1-D signatures. The choice takes the least time: what boxing takes in a step
// (the prices of boxing_path.h) and what a device computes, reads and writes.
//
// What is fixed: the signatures of `fixed`; a constraint is the SBP of its tensor; a variable, its
// replicas on other stages and its optimizer states lie alike and reach `adamw` without boxing.
// What is all but fixed: gradients mirror their tensors. What is free: everything else.
//
// All axes are chosen at once (choice_network.h). Where that is not solved, descent begins with the
// best that was found and with one axis chosen after the other, each the cheapest given the axes
// before it; a note says how much less time another choice could take at most. Where there are too
// many ways even for that, one axis is chosen after the other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/gradient_mirror.h"
#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// Signatures of ops that are not to be chosen, by axis and name of the op: "(S(0), B) -> P".
using FixedRows = std::map<std::string, std::map<std::string, std::string>>;

struct SbpOptions {
  int64_t micro_batches = 1;  // forward and backward count this often, the update once
  // From Differentiate: a gradient that does not lie as its tensor does (S as S; B as B or P) is
  // dear. Without it, plans are as right but harder to foresee.
  std::vector<GradientMirror> mirrors = {};
  proto::Cluster cluster = {};  // links and devices; nothing: ClusterForLayouts (stand_in.h)
  // Whether a dimension named "seq" may be split although no constraint on the axis does: sequence
  // parallelism wherever it is cheapest.
  bool split_positions = false;
  FixedRows fixed = {};
};

// What tensors do not say by themselves. `op_inputs[op][i]`: the nd-SBP that the chosen signature
// of `op` needs of its input i; insert_boxing makes it so.
struct SbpChoice {
  std::vector<std::vector<NdSbp>> op_inputs;
  std::vector<std::string> notes;  // for `explain`, one sentence each
};

// Fills in Tensor::sbp of all tensors. Requires shapes; no boxing ops yet. A constraint that no
// signature meets is an input error that lists the legal ones. Constraints on axes that the mesh
// has not are ignored if the axis is a conventional one (data, tensor, expert, seq), since meshes
// come from the command line; one on axis "data" holds for data.0, data.1, ... of a factored axis.
absl::StatusOr<SbpChoice> InferSbp(Graph* graph, const SbpOptions& options = {});

}  // namespace oneflow
