// Gives every stage the variables and inputs that it uses. A variable used on k > 1 stages becomes
// one op on each ("wte" on the lowest, "wte@3" on stage 3). Each is updated on its stage, and each
// stage loads its own tokens, so neither ever crosses a stage.
//
// Guarantees: every op of kind "variable" has the attribute `variable` (its logical name), every op
// of kind "input" the attribute `input`; both stand on the stage of all their users.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// An op whose stage the mesh lacks, or one that reads from a later stage, is an input error.
absl::Status PlaceVariables(Graph* graph);

}  // namespace oneflow
