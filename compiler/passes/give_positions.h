// Makes positions data: inputs beside the tokens, which tell ops the positions of their tokens. A
// graph needs them if documents are kept apart, or if an axis splits positions.
//
//   new input                        positions[b, t]; with documents documents[b, t], too
//   attention, causal_attention      take those of queries and of keys
//   rotary(x)                        rotary(x, positions)
//   positional_embedding(x, table)   add(x, embedding(table, positions))
//
// With documents no op looks from one document into another, positions begin anew with each, and no
// label belongs to another document than its token. The token that ends a document is no property
// of the graph: the run's data give it (RunContext).
//
//   input "labels"                   source document_labels: -1 where the next token begins another
//                                    document
//   softmax_cross_entropy            ignore_negative
//
// If axes split positions over p devices, the first would compute least of causal attention and the
// last most. So inputs of tokens get the attribute `mirrored` = p, and come in the order of
// tensor/mirrored.h. The ops that follow are correct in any order of tokens, because they read the
// positions. Exceptions:
//
//   - a dropout mask goes by the index of an element, and a run feeds data in the order of
//     positions: graphs with either are not mirrored, and a note says so;
//   - tokens that queue for experts must have each run of theirs on one device.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The number of devices over which axes of the mesh split the positions of tokens, by constraints
// that ask for S(1) of them. 1: no constraint does.
int PositionParts(const Graph& graph);

// Infers the shapes of the new graph, and adds to `notes` what a user may want to know. Requires
// inferred shapes, and composite ops as they are written (before decompose.h). Errors: a graph that
// looks from token to token in other ways; a run of tokens that is cut.
absl::Status GivePositions(Graph* graph, bool documents, std::vector<std::string>* notes);

// Joins the positions of a program that is fed its tokens in the order of positions: no axis splits
// them.
void JoinPositions(Graph* graph);

}  // namespace oneflow
