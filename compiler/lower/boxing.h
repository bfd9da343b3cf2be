// Lowers a boxing op to its actor's group and reduction, and records its facts: bytes and seconds
// of a firing, and the reason for it. Part of lower_to_actors.
#pragma once

#include <span>
#include <vector>

#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// `ops`: those that the actor does in one firing, alike but for their tensors. The actor of a
// transfer is the receive. `cluster`: for seconds, which are those of ActorTimes (actor_cost.h) if
// no layout leaves a device without a part.
void LowerBoxing(const Graph& graph, std::span<const Op* const> ops,
                 const google::protobuf::RepeatedPtrField<proto::Group>& groups,
                 const proto::Cluster& cluster, proto::Actor* actor, proto::ActorFacts* facts);

}  // namespace oneflow
