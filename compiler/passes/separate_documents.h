// Keeps the documents of a sample apart: no op looks from one document into another, positions
// begin anew with each, and no label belongs to another document than its token.
//
//   new inputs                       positions[b, t], documents[b, t]: data, as tokens are
//   attention, causal_attention      take positions and documents of queries and of keys
//   rotary(x)                        rotary(x, positions)
//   positional_embedding(x, table)   add(x, embedding(table, positions))
//   input "labels"                   source document_labels: -1 where the next token begins another
//                                    document
//   softmax_cross_entropy            ignore_negative
//
// Which token ends a document is no matter of the graph: the run's data say it (RunContext).
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires inferred shapes, and composite ops as they are written (before decompose.h); infers the
// shapes of the new graph. A graph that looks from token to token in other ways is an input error.
absl::Status SeparateDocuments(Graph* graph);

}  // namespace oneflow
