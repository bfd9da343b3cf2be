// Flags that change nothing in the plan that is compiled.
#pragma once

#include "oneflow_core/tensor/mesh.h"
#include "proto/graph.pb.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {

// A line on stderr for each flag that was given and acts on nothing on this mesh, such as
// --shard=weights without a data axis. It is no error: the same flags serve another mesh. Flags
// that contradict each other on any mesh are refused where they are read.
void WarnOfIdleFlags(const Arguments& args, const Mesh& mesh, const proto::Graph& graph);

}  // namespace oneflow
