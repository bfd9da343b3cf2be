// Chooses the layout of every tensor on every mesh axis except the stage axis: for each axis one
// row of each op's table of 1-D signatures. The choice takes the least time: the seconds of boxing
// in a step (boxing_path.h) plus those of each device's kernels.
//
// The signatures of `fixed` and the SBPs of constraints are fixed. A variable, its replicas on
// other stages and its optimizer states have one layout and reach `adamw` without boxing. Gradients
// mirror their tensors wherever possible. Everything else is free.
//
// Costs assume one stage, on the mesh without the others, so that the choice is the same at any
// pipe degree (law 6).
//
// All axes are chosen at once, as a weighted constraint satisfaction problem that mini-bucket
// elimination solves (choice_network.h). If the result is not proved optimal, local search starts
// from it and from the choice axis by axis, each the cheapest given the previous axes. A note says
// by how much another choice could be cheaper. If an op has too many combinations even for that,
// the axes are chosen one after the other only.
//
// Next: compiler/passes/insert_boxing.cc, which joins layouts that differ.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/gradient_mirror.h"
#include "compiler/sbp/known_layouts.h"
#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// Given signatures of ops, by axis and name of the op: "(S(0), B) -> P".
using FixedRows = std::map<std::string, std::map<std::string, std::string>>;

struct SbpOptions {
  int64_t micro_batches = 1;  // forward and backward count this often, the update once
  // Gradients and their tensors, from Differentiate. A gradient whose layout does not mirror its
  // tensor's (S as S; B as B or P) is charged. Without mirrors plans are as correct, but harder to
  // foresee.
  std::vector<GradientMirror> mirrors = {};
  proto::Cluster cluster = {};  // links and devices; none: ClusterForLayouts (stand_in.h)
  // True: a dimension named "seq" may be split although no constraint on the axis splits it, so
  // there is sequence parallelism wherever it is cheapest.
  bool split_positions = false;
  // True: on axes `tensor`, ops of a micro-batch compute with the part of a weight that its
  // constraint splits, and of its gradient, where they can: no weight is gathered there (Megatron's
  // tensor parallelism). Else it is gathered where that takes less time.
  bool split_products = false;
  FixedRows fixed = {};
  // Layouts that were chosen before and are not searched again; results are equal. null: all are
  // searched.
  std::shared_ptr<KnownLayouts> known_layouts = nullptr;
};

// The part of the choice that tensors do not hold. `op_inputs[op][i]` is the nd-SBP that the chosen
// signature of `op` needs of its input i; insert_boxing adds the boxing.
struct SbpChoice {
  std::vector<std::vector<NdSbp>> op_inputs;
  std::vector<std::string> notes;  // for `explain`, one sentence each
};

// Fills in Tensor::sbp of all tensors. Requires shapes; no boxing ops yet. A constraint that no
// signature meets is an input error that lists the legal ones. Constraints on axes that the mesh
// lacks are ignored if the axis is a conventional one (data, tensor, expert, seq), because meshes
// come from the command line. A constraint on axis "data" holds for data.0, data.1, ... of a
// factored axis.
absl::StatusOr<SbpChoice> InferSbp(Graph* graph, const SbpOptions& options = {});

}  // namespace oneflow
