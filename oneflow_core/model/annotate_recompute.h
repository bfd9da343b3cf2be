// Which ops of a GPT are computed again in the backward: writes Op::recompute.
//
//   none        nothing (but what the graph itself says)
//   selective   attention, layer norms, gelu and dropout, each by itself: all but matrix products
//   full        a block at a time: of each block only its input is kept
//
// In a graph of one's own, `recompute: "name"` on an op makes scopes of any ops.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// "" is none. Errors: a policy that is not known; one of these two for a graph without blocks
// ("h.0", "h.1", ...).
absl::Status AnnotateRecompute(Graph* graph, std::string_view policy);

}  // namespace oneflow
