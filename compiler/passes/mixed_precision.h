// Mixed precision: matrix products, attention and the ops between them read and write bf16. They
// still accumulate in f32. Tensors that a step's accuracy depends on stay f32: variables, their
// gradients and the optimizer's states, the residual stream, statistics of norms and softmax, the
// loss.
//
// The residual stream may be bf16, too: the inputs of norms and the sums between them (of matrices
// and more; each sum is rounded once), and the gradients of both. It halves the bytes of the stream
// that are kept and sent. Then a block that adds less than 1/256 of the stream is partly lost in
// rounding.
//
// The ops' definitions state the inputs that are read as bf16 (OpDef::precision), and the outputs
// that are bf16 then (docs/ops.md). A `cast` is added between types that differ:
//   of a variable   once a step, before the first micro-batch (Phase::kPrepare), on its own stage;
//                   if the weight rests split as its states, cast_uses.h casts it for each use
//   of an activation or its gradient   once a micro-batch, shared by all of its readers
//   of a variable's gradient   once a micro-batch, on its own stage: it accumulates in f32
// No cast is added if the writer can round: a norm without f32 readers writes bf16
// (OpDef::may_round). An rms_norm of the heads of queries or keys reads them as they are.
//
// It does not change the model: inputs, variables, loss and outputs have the types they had, and a
// graph in f64 stays as it is.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "compiler/passes/differentiate.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct MixedPrecisionOptions {
  DType residual = DType::kF32;  // or bf16: the type of the residual stream
  // Casts the biases of bf16 products like their weights, because cuBLASLt only adds biases of the
  // result's type.
  bool narrow_biases = false;
};

// Requires shapes, primitive ops and placed variables; SBP not yet. Ops move: `mirrors`, from
// Differentiate, follow them.
absl::Status MixedPrecision(Graph* graph, const MixedPrecisionOptions& options,
                            std::vector<GradientMirror>* mirrors);

// The number of ops that multiply matrices of bf16.
int CountNarrowProducts(const Graph& graph);

}  // namespace oneflow
