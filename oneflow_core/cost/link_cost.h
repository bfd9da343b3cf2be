// What moving a tensor over one mesh axis takes on a cluster: the one function of prices (boxing)
// and times (the simulator).
//
//   const Link link = LinkOfAxis(cluster, mesh, mesh.FindAxis("tensor"));
//   double seconds = PrimitiveSeconds("all_reduce", /*tensor_bytes=*/1 << 20, /*devices=*/8, link);
//
// Alpha-beta: a primitive takes the latency of its link once, and the bytes that a device receives
// at the link's bandwidth. Volumes are those of rings and pairwise exchanges. Groups along an axis
// work at the same time, each device on its own share of its node's links, and the slowest group
// counts. It knows nothing of what the devices do meanwhile, nor of their memory: slice and
// zero_fill are free.
//
// Pure functions.
#pragma once

#include <string_view>

#include "oneflow_core/tensor/mesh.h"
#include "proto/cluster.pb.h"

namespace oneflow {

struct Link {
  double latency = 0;    // seconds a primitive
  double bandwidth = 0;  // bytes/s a device, one direction; above 0
  bool operator==(const Link&) const = default;
};

// A level of the topology, by its number from the innermost, 0. Requires that there is one.
Link LinkOfLevel(const proto::Cluster& cluster, int level);

// The innermost level of the topology that holds every group along `axis` whole; of stages, every
// pair of devices of the same coordinate. The outermost where none does, 0 where there are none.
int LevelOfAxis(const proto::Cluster& cluster, const Mesh& mesh, int axis);
int LevelOfStages(const proto::Cluster& cluster, const Mesh& mesh, int stage, int other);

// What joins the devices of a group along `axis`: the innermost level of the topology that holds
// every group whole; the outermost where none does. Ranks lie in the topology in their order, the
// members of the innermost level are neighbours. Where a group has several devices in each unit of
// the level below, their links to the outside work for it together (several NICs of a node), but it
// is never faster than inside.
Link LinkOfAxis(const proto::Cluster& cluster, const Mesh& mesh, int axis);

// What joins a device of one stage with that of the same coordinate of another; of all such pairs
// the slowest.
Link LinkOfStages(const proto::Cluster& cluster, const Mesh& mesh, int stage, int other);

// Of all links that the above may give, the fastest.
double FastestBandwidth(const proto::Cluster& cluster);

// Bytes that one of `devices` devices receives. tensor_bytes, T: of the tensor that the group holds
// together: of all its parts where it is split, of one copy where it is broadcast or partial.
//   all_gather, reduce_scatter  (p-1)/p T    all_reduce  2 (p-1)/p T    all_to_all  (p-1)/p^2 T
//   transfer  T                              slice, zero_fill  0
// CHECKs that the primitive is one of these.
double ReceivedBytes(std::string_view primitive, double tensor_bytes, int devices);

// 0 where nothing is received.
double PrimitiveSeconds(std::string_view primitive, double tensor_bytes, int devices,
                        const Link& link);

}  // namespace oneflow
