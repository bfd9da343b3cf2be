// Which axes of a mesh are neighbours on a cluster: those that exchange most inside a node. Part of
// compile.
#pragma once

#include <cstdint>

#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// graph.mesh with its axes in another order: the one in which the boxing of a step takes least, one
// exchange after the other, by the prices of the search and of the simulator (boxing_cost.h); the
// order as it is, unless another takes less. `graph` is the boxed one of the program that matters.
// The factors of an axis stay together, in their order.
//
// What is exchanged is taken from the graph as it was boxed. Another order of the axes within a
// stage may box otherwise, so for OrderAxes compile boxes for links that are all alike. Boxing
// within a stage does not depend on where the stage axis is, so for PlaceStages it boxes for the
// cluster, with the stages outermost.
//
// bucket_bytes: of gradients that are exchanged together; 0: each alone.
//
// Of all orders; with more than six axes, of which there are too many, the order as it is.
Mesh OrderAxes(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
               int64_t bucket_bytes);

// Of those that move the stage axis alone.
Mesh PlaceStages(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
                 int64_t bucket_bytes);

}  // namespace oneflow
