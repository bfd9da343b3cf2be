// Turns a forward graph over whole sequences into one over pieces of `positions` new positions, for
// programs that continue a text. Keys and values of earlier positions stay in caches.
//
//   tokens[b, T]                               tokens[b, positions]
//                                              a new input, position[1]: that of the first token
//   positional_embedding(x, table)             positional_embedding_at(x, table, position)
//   attention(q, k, v) -> out, lse             cached_attention(cache, q, k, v, position) -> cache,
//                                              out
//
// Each attention gets a transient variable of its own, cache[b, 2, g, T, d], named after it:
// programs with other numbers of positions share it. A text is one document, so an attention's
// inputs of positions and documents are dropped. Graph inputs for them may be unread afterwards.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The name of the input that gives the position of a piece's first token.
inline constexpr char kPositionInput[] = "position";

// Infers the shapes of the new graph. Requires inferred shapes, no composite ops (decompose.h), 1
// <= positions. A graph that computes with its tokens in ways that do not fit pieces is an input
// error.
absl::Status CacheAttention(Graph* graph, int64_t positions);

}  // namespace oneflow
