// Chooses the axes of a mesh that are neighbours on a cluster: those that exchange most are inside
// a node.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "compiler/compile.h"
#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// By block, of how many alike its exchanges are, in a graph without the others; of any other block
// they are its own.
using StandIns = std::map<int, double>;

// Returns graph.mesh with its axes in the order in which the boxing of a step takes the least time,
// one exchange after the other. Times are those of the search and of the simulator (boxing_cost.h).
// The order stays unless another takes less. `graph` is the boxed graph of the program that
// matters. The factors of an axis stay together, in their order.
//
// Exchanges are those of the graph as it was boxed. Another order of the axes within a stage may
// need other boxing, so for OrderAxes the graph is boxed for links that are all alike. Boxing
// within a stage does not depend on the position of the stage axis. So for PlaceStages it is boxed
// for the cluster, with the stages outermost.
//
// bucket_bytes: of gradients that are exchanged together; 0: each is exchanged alone.
//
// OrderAxes tries all orders; more than six axes have too many and keep theirs.
Mesh OrderAxes(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
               int64_t bucket_bytes, const StandIns& stand_ins = {});

// Tries only the orders that move the stage axis.
Mesh PlaceStages(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
                 int64_t bucket_bytes);

// Orders the axes of the request's mesh for its cluster, unless keep_axis_order says otherwise or
// the cluster has one level: first those of a stage as they would stand if it were the only one,
// then the position of the stages. Where many blocks are alike, few of each class tell
// the order within a stage. Afterwards the recipe says keep_axis_order. The order depends on graph,
// cluster, sizes of the axes and micro-batches alone, because the order of axes other than the
// stages' changes bits. Adds a note where it is not the written one. `program`: the last one of the
// front end that `cache` gets; empty: all.
absl::Status OrderMesh(const GraphSource& source, CompileCache* cache, PlanRequest* request,
                       std::vector<std::string>* notes, std::string_view program = "");

}  // namespace oneflow
