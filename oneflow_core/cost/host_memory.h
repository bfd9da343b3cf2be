// What the devices of a node take of its host's memory.
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
  int64_t devices = 0;                  // of the plan, that stand in it
  int first_stage = 0, last_stage = 0;  // of which they are
  int64_t bytes = 0;                    // of all of them; as many as can be counted, if more
};

// Whether the cluster says how many devices a node has: it has a level of that name.
bool KnowsNodes(const proto::Cluster& cluster);

// Of all nodes the first that takes most. Without a level "node" all devices are in one. Nothing of
// a plan whose mesh and arenas contradict each other. The time depends on stages and the size of a
// node, not on the number of devices.
NodeMemory FindNodeMemory(const proto::Plan& plan, const proto::Cluster& cluster);

}  // namespace oneflow
