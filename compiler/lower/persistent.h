// The registers that outlive programs: weights and states of the optimizer, one for each stage that
// holds them. All programs of a plan share them.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"
#include "proto/plan.pb.h"

namespace oneflow {

// (logical variable, stage) -> register id.
using PersistentIds = std::map<std::pair<std::string, int>, int>;

// Adds the variables of a graph that `plan` does not hold yet. Graphs after the first must have the
// layouts of the first. A transient variable gets a register, but is no variable of the plan:
// checkpoints do not hold it. Requires inferred SBP.
absl::Status AddPersistent(const Graph& graph, proto::Plan* plan, PersistentIds* ids);

// Constrains the variables of `graph` to the layouts of the plan's registers.
void ConstrainVariables(const proto::Plan& plan, Graph* graph);

}  // namespace oneflow
