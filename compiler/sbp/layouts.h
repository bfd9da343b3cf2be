// Layouts that a graph states in full (proto OpLayout): the signature of every op of a program on
// an axis, with the ops that passes add. They leave nothing to infer_sbp there.
//
// AddLayouts writes the choice of infer_sbp; ReadFixedRows reads it for SbpOptions::fixed. The
// layouts of such a graph no longer depend on costs. It does not state the path of boxing between
// two layouts (boxing_path.h).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "proto/graph.pb.h"

namespace oneflow {

// Returns the rows that the layouts of `program` state for the ops of `graph`, the program before
// inference. If they state any op on an axis, they must state all; an op that is left out is an
// input error. Axes and ops that do not exist are ignored. Requires a graph that GraphFromSource
// accepts.
absl::StatusOr<FixedRows> ReadFixedRows(const proto::Graph& stated, std::string_view program,
                                        const Graph& graph);

// Appends the layouts of a program after inference to `stated`. Ops of blocks with equal layouts
// are named once: "h.*.ln_1".
void AddLayouts(std::string_view program, const Graph& graph, const SbpChoice& choice,
                proto::Graph* stated);

}  // namespace oneflow
