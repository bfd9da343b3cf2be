// Turns a forward graph over whole sequences into one over pieces of `positions` new positions, for
// programs that continue a text: what attention needs of earlier positions stays in caches.
//
//   tokens[b, T]                               tokens[b, positions]
//                                              a new input, position[1]: that of the first token
//   positional_embedding(x, table)             positional_embedding_at(x, table, position)
//   causal_attention(qkv) -> out, lse          cached_attention(cache, qkv, position) -> cache, out
//
// Each attention gets a transient variable of its own, cache[b, 2, heads, T, d], named after it:
// programs with other numbers of positions share it.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The name of the input that tells where a piece begins.
inline constexpr char kPositionInput[] = "position";

// Requires inferred shapes, 1 <= positions; infers those of the new graph. A graph that computes
// with its tokens in ways that do not fit pieces is an input error.
absl::Status CacheAttention(Graph* graph, int64_t positions);

}  // namespace oneflow
