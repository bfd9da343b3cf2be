// Lowers a boxing op to its actor's group and reduction, and records its facts: bytes and seconds
// of a firing, and why it is there. Part of lower_to_actors.
#pragma once

#include <vector>

#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// `actor`: of a transfer the receive. One that has boxing already does the same to one tensor more,
// and enters its links once. `cluster`: for seconds; see boxing_path.h.
void LowerBoxing(const Graph& graph, const Op& op, const std::vector<proto::Group>& groups,
                 const proto::Cluster& cluster, proto::Actor* actor, proto::ActorFacts* facts);

}  // namespace oneflow
