// Where a GPT lies on a mesh: the one place that chooses stages and SBP for the model of gpt.h. It
// only writes annotations: Tensor.constraint and Op.stage. It is not a pass that infers; what it
// leaves free, infer_sbp decides.
//
//   axis                  constraints
//   data,   data.0, ...   inputs and the residual stream S(0) (the batch); variables B, or with
//                         `shard` split along a dimension that no tensor axis splits, as evenly as
//                         can be; B where there is none
//   tensor, tensor.0, ... qkv by heads, fc by columns, proj by rows, embedding and head by vocab;
//                         all other variables, the inputs and the residual stream B
//   pipe                  blocks in order, embedding first, head and loss last, so that the stage
//                         with the most flops has the fewest (balance_stages.h); over `chunks`
//                         times as many places, which the stages take in turn
//   any other             none
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {

struct AnnotateOptions {
  // The residual stream is free on tensor axes: sequence parallelism where infer_sbp finds it no
  // dearer.
  bool split_positions = false;
  // How variables lie on data axes, and with them the states of the optimizer.
  enum Shard {
    kNone,     // whole
    kStates,   // split; the weights are gathered once a step (ZeRO 1)
    kWeights,  // split; the weights are gathered anew for each use (ZeRO 3)
  };
  Shard shard = kNone;
  int chunks = 1;  // a stage
  // Blocks of each place along the pipe, in order; empty: balanced. Only the first place, which has
  // the embedding, and the last, which has the head, may have none.
  std::vector<int> stage_layers = {};
};

// Annotates `graph` for `mesh` (graph->mesh is not looked at). What the user wrote wins: a
// constraint on (tensor, axis) is kept, and where any op has a stage, all stages are. A graph
// without the blocks of a GPT only gets S(0) on data axes, on inputs whose first dimension is named
// "batch", and what `shard` says of its variables. Errors: fewer blocks than places; fewer heads or
// words than parts; stage_layers that are not these places and blocks, or come with stages of the
// user's own.
absl::Status AnnotateGpt(Graph* graph, const Mesh& mesh, const AnnotateOptions& options = {});

}  // namespace oneflow
