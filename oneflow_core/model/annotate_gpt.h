// Annotates a GPT for a mesh: the only code that chooses stages and SBPs for the model of gpt.h. It
// only writes annotations: Tensor.constraint and Op.stage. It infers nothing; infer_sbp decides
// everything that it leaves free.
//
//   axis                  constraints
//   data,   data.0, ...   inputs and the residual stream S(0) (the batch); variables B, or with
//                         `shard` split along a dimension that no tensor axis splits, as evenly as
//                         can be; B where there is none
//   tensor, tensor.0, ... qkv by heads, fc by columns, proj by rows, embedding and head by vocab;
//                         all other variables, the inputs and the residual stream B
//   pipe                  blocks in order, embedding first, head and loss last, so that the stage
//                         with the most flops has the fewest (balance_stages.h); over `chunks`
//                         times as many chunks, which the stages take in turn
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
  // The layout of variables, and of their optimizer states, on data axes.
  enum Shard {
    kNone,     // replicated
    kStates,   // split; the weights are gathered once a step (ZeRO 1)
    kWeights,  // split; the weights are gathered anew for each use (ZeRO 3)
  };
  Shard shard = kNone;
  int chunks = 1;  // a stage
  // The number of blocks of each chunk along the pipe, in order; empty: balanced. Only the first
  // chunk, which has the embedding, and the last, which has the head, may have none.
  std::vector<int> stage_layers = {};
};

// Annotates `graph` for `mesh`; graph->mesh is ignored. The user's annotations win: a constraint on
// (tensor, axis) is kept, and if any op has a stage, all stages are kept. A graph without the
// blocks of a GPT only gets S(0) on data axes for inputs whose first dimension is named "batch",
// and `shard` for its variables. Errors: fewer blocks than chunks; fewer heads or words than parts;
// stage_layers whose chunks or blocks do not match, or that come together with the user's stages.
absl::Status AnnotateGpt(Graph* graph, const Mesh& mesh, const AnnotateOptions& options = {});

}  // namespace oneflow
