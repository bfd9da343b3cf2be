// Flags that change nothing in the plan that is compiled.
#pragma once

#include "compiler/compile.h"
#include "proto/graph.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// A line on stderr for each flag that was given and acts on nothing on this mesh, such as
// --shard=weights without a data axis. It is no error: the same flags serve another mesh. Flags
// that contradict each other on any mesh are refused where they are read. `request` is what the
// flags say. Errors: those of Completed.
absl::Status WarnOfIdleFlags(const Arguments& args, const PlanRequest& request,
                             const proto::Graph& graph);

// The same of activations in the host's memory that lower no device's: copies on their way take
// memory, too, and of a small model more than is saved. Requires `plan`, compiled of both; compiles
// once more where they say so.
void WarnOfIdleOffload(const GraphSource& source, const PlanRequest& options,
                       const proto::Plan& plan);

}  // namespace oneflow
