// Sums the host memory that the devices of a node take.
//
//   const NodeMemory most = FindNodeMemory(plan, cluster);
//   if (most.bytes > capacity) ...
#pragma once

#include <cstdint>

#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

struct NodeMemory {
  int64_t node = 0;                     // ranks fill the nodes in their order
  int64_t devices = 0;                  // of the plan, in this node
  int first_stage = 0, last_stage = 0;  // of these devices
  int64_t bytes = 0;                    // of all of them; the largest countable number, if more
};

// True if the cluster states the number of devices of a node: it has a level of that name.
bool KnowsNodes(const proto::Cluster& cluster);

// Returns the first of the nodes that take most. Without a level "node" all devices are in one.
// Returns an empty one for a plan whose mesh and arenas contradict each other. The time depends on
// stages and the size of a node, not on the number of devices.
NodeMemory FindNodeMemory(const proto::Plan& plan, const proto::Cluster& cluster);

}  // namespace oneflow
