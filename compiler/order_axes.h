// Chooses the axes of a mesh that are neighbours on a cluster: those that exchange most are inside
// a node. Part of compile.
#pragma once

#include <cstdint>

#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// Returns graph.mesh with its axes in the order in which the boxing of a step takes the least time,
// one exchange after the other. Times are those of the search and of the simulator (boxing_cost.h).
// The order stays unless another takes less. `graph` is the boxed graph of the program that
// matters. The factors of an axis stay together, in their order.
//
// Exchanges are those of the graph as it was boxed. Another order of the axes within a stage may
// need other boxing, so for OrderAxes compile boxes for links that are all alike. Boxing within a
// stage does not depend on the position of the stage axis. So for PlaceStages compile boxes for the
// cluster, with the stages outermost.
//
// bucket_bytes: of gradients that are exchanged together; 0: each is exchanged alone.
//
// OrderAxes tries all orders; more than six axes have too many and keep theirs.
Mesh OrderAxes(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
               int64_t bucket_bytes);

// Tries only the orders that move the stage axis.
Mesh PlaceStages(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
                 int64_t bucket_bytes);

}  // namespace oneflow
