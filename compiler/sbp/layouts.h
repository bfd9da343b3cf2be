// Layouts that a graph states in full (proto OpLayout): the signature of every op of a program on
// an axis, those of the ops that passes add included, so that nothing is left to infer_sbp there.
//
// Both ways: AddLayouts writes what infer_sbp chose, FixedRowsOf reads it for SbpOptions::fixed. A
// graph that was written so lies the same whatever an op or a link is said to cost. It does not
// state the way that boxing takes between two layouts (boxing_path.h).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "proto/graph.pb.h"

namespace oneflow {

// What the layouts of `program` say of the ops of `graph`, the program before inference. On an axis
// of which they say anything they must say it of every op that lies on it; axes that the mesh has
// not, and ops that the program has not, are passed over. An op that is left out is an
// input error. Requires a graph that GraphFromSource accepts.
absl::StatusOr<FixedRows> FixedRowsOf(const proto::Graph& stated, std::string_view program,
                                      const Graph& graph);

// Appends the layouts of a program after inference to `stated`. Ops of blocks that lie alike are
// named once: "h.*.ln_1".
void AddLayouts(std::string_view program, const Graph& graph, const SbpChoice& choice,
                proto::Graph* stated);

}  // namespace oneflow
