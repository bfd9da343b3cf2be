// Proves the results of inferring SBP and inserting boxing from the ops' tables alone. It shares no
// code with the passes it checks.
//
//  1. Every tensor has an SBP for each axis; the stage axis is B.
//  2. Every op's inputs and outputs are, on each axis, a row of its table; a boxing op changes the
//     axes it names as its kind says, a transfer none.
//  3. Every input is on the op's stage, except a transfer's.
//  4. No partial value leaves the graph as its loss or an output; 2 excludes that an op reads one
//     by mistake.
//  5. Nothing in forward reads backward or update; nothing in backward reads update.
//  6. A tensor that an op updates in place (OpDef::updates) is a variable: no boxing between.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Returns an internal error: a graph that fails shows a mistake of the compiler, not of its user.
absl::Status VerifyGraph(const Graph& graph);

}  // namespace oneflow
