// What a boxing op tells its actor: peers, reduction, bytes and seconds of a firing, and why it is
// there. Part of lower_to_actors.
#pragma once

#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// `cluster`: for seconds; see boxing_path.h.
void LowerBoxing(const Graph& graph, const Op& op, const proto::Cluster& cluster,
                 proto::Actor* actor);

}  // namespace oneflow
