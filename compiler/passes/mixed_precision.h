// Mixed precision: matrix products, attention and what lies between them read and write bf16; they
// still add up in f32. What the bits of a step rest on stays f32: variables, their gradients and
// the optimizer's states, the residual stream, statistics of norms and softmax, the loss.
//
// The residual stream may be bf16, too: what layer norms read and what is added up between them (of
// matrices and more; each sum is rounded once), and the gradients of both. It halves what is kept
// and sent of it; a block that adds less than 1/256 of the stream is then partly lost in rounding.
//
// Which inputs a kind reads as bf16 stands in the table of mixed_precision.cc; which outputs are
// bf16 then follows from the ops' definitions (docs/ops.md). Where types disagree a `cast` is
// added:
//   of a variable   once a step, before the first micro-batch (Phase::kPrepare), on its own stage;
//   of an activation or its gradient   once a micro-batch, shared by all of its readers;
//   of a variable's gradient   once a micro-batch, where it is made: it adds up in f32.
// No cast where the writer can round by itself: a layer_norm that nobody reads as f32 writes bf16.
//
// It is not a change of the model: inputs, variables, loss and outputs have the types they had, and
// a graph in f64 stays as it is.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/passes/differentiate.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct MixedPrecisionOptions {
  DType residual = DType::kF32;  // or bf16: the type of the residual stream
  // Whether the biases of bf16 products are cast like their weights: cuBLASLt adds biases of the
  // result's type alone.
  bool narrow_biases = false;
};

// Requires shapes, primitive ops and placed variables; SBP not yet. Ops move: `mirrors`, from
// Differentiate, follow them.
absl::Status MixedPrecision(Graph* graph, const MixedPrecisionOptions& options,
                            std::vector<GradientMirror>* mirrors);

// Ops that multiply matrices of bf16.
int CountNarrowProducts(const Graph& graph);

}  // namespace oneflow
