// Tells ops where tokens are: positions become data, inputs beside the tokens. A graph needs that
// where documents are kept apart, and where an axis splits positions.
//
//   new input                        positions[b, t]; with documents documents[b, t], too
//   attention, causal_attention      take those of queries and of keys
//   rotary(x)                        rotary(x, positions)
//   positional_embedding(x, table)   add(x, embedding(table, positions))
//
// With documents no op looks from one document into another, positions begin anew with each, and no
// label belongs to another document than its token. Which token ends a document is no matter of
// the graph: the run's data say it (RunContext).
//
//   input "labels"                   source document_labels: -1 where the next token begins another
//                                    document
//   softmax_cross_entropy            ignore_negative
//
// Where axes split positions over p devices, of causal attention the first would compute least and
// the last most. So inputs of tokens get the attribute `mirrored` = p, and come in the order of
// tensor/mirrored.h. What follows is right in any order of tokens, for it is told the positions;
// only
//
//   - a mask of dropout goes by the index of an element, and what a run feeds comes in the order of
//     positions: graphs with either are not mirrored, which a note says;
//   - tokens that queue for experts must have each run of theirs on one device.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Over how many devices axes of the mesh split the positions of tokens: constraints that ask for
// S(1) of them. 1: nothing does.
int PositionParts(const Graph& graph);

// Requires inferred shapes, and composite ops as they are written (before decompose.h); infers the
// shapes of the new graph. `notes` gets what a user may want to know. Errors: a graph that looks
// from token to token in other ways; a run of tokens that is cut.
absl::Status GivePositions(Graph* graph, bool documents, std::vector<std::string>* notes);

// The graph of a program that is fed its tokens in the order of their positions: no axis splits
// them.
void JoinPositions(Graph* graph);

}  // namespace oneflow
