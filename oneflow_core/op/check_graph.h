// Applies the ops' definitions to a graph: checks that every op is well formed, and infers shapes.
//
//   RETURN_IF_ERROR(CheckGraph(graph));     // kinds, numbers of inputs and outputs, attributes
//   RETURN_IF_ERROR(InferShapes(&graph));   // shapes and dtypes; needs "batch" bound
//
// All errors are input errors that name the op. Neither looks at SBP, stages or the mesh.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {

// Checks that every kind is known, takes that many inputs, and has at most its outputs. It has all
// of its required attributes, no others than its own, and each of its type (an int may stand for a
// double).
absl::Status CheckGraph(const Graph& graph);

// Checks one op against a definition, which need not be in the registry.
absl::Status CheckOpAgainst(const Op& op, const OpDef& def);

// Checks a graph as its user wrote it: no kind and no attribute that only passes may set, and no
// variable named as a state of the optimizer ("w/m", "w/v").
absl::Status CheckLogicalGraph(const Graph& graph);

// Fills in shape and dtype of every tensor, in op order. Shapes of inputs and variables stay. Ops
// that were read from a file only have the outputs that some op reads: the missing ones are
// appended. Requires CheckGraph and that ops are in topological order.
absl::Status InferShapes(Graph* graph);

// Infers shapes for one op, whose inputs have shapes.
absl::Status InferOpShapes(Graph* graph, OpId op);

}  // namespace oneflow
