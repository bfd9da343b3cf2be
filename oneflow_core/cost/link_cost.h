// The time that links take for an exchange of a group of devices on a cluster. boxing_cost.h, which
// gives costs and times of boxing, calls it.
//
//   const GroupLinks links = LinksOfGroup(cluster, mesh, {mesh.FindAxis("tensor")});
//   double received = ReceivedBytes("all_reduce", /*tensor_bytes=*/1 << 20, links.devices);
//   double seconds = ExchangeSeconds("all_reduce", received, links);
//
// The model is that of Hockney (1994): a step takes a latency, and bytes over a bandwidth. The
// algorithms are those of NCCL, with the steps that Thakur, Rabenseifner and Gropp (2005) count.
// There are p devices on n nodes and T bytes of tensor; latencies and bandwidths are by level of
// the topology:
//
//   all_gather, reduce_scatter  ring: p - 1 steps, n - 1 of them between nodes; (p-1)/p T
//   all_reduce                  ring: twice as many steps; 2 (p-1)/p T
//                               tree: 2 (p/n - 1 + log2 n) steps, log2 n of them each way between
//                               nodes; 2 T. The cheaper of the two.
//   all_to_all                  pairwise: p - 1 steps; (p-1)/p^2 T, from each device as much
//   transfer                    one step; T
//
// A library's protocols trade bandwidth for latency (proto/cluster.proto, Protocol); each
// collective takes the cheapest for its size, as NCCL's tuner does (src/graph/tuning.cc). As there,
// a ring with one device a node exposes the network's whole latency, which is the tree's.
//
// Bandwidths: inside a node each device has its own link. A ring enters and leaves a node through
// all ports of the node that its group has. All groups along the same axes work at the same time,
// so k groups in a node have a k-th of its ports each. The slowest level counts. In all_to_all each
// device crosses a level with its own share of the ports. Data that leaves a node passes its inner
// links first (PXN in NCCL).
//
// CPU devices in several processes send packets, and each process has one port: a group takes one
// latency, not one a step. In one process they need no link (boxing_cost.h).
//
// It ignores the other work of the devices, and their memory: slice and zero_fill are free. Ranks
// are numbered as the topology is: the members of the innermost level are neighbours. Accelerators
// are placed as schedulers place a job: a unit holds a multiple of the largest block of inner axes,
// if at most an eighth of its devices stay idle. Groups of 32 take 64 of a rack of 72, and do not
// straddle racks. If groups along an axis differ, the slowest counts.
//
// Pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// A protocol at a level: proto/cluster.proto, Protocol.
struct ProtocolCost {
  double ring_start = 0, ring_step = 0, ring_share = 1;
  double tree_start = 0, tree_step = 0, tree_share = 1;
};

// A level of the topology as a group uses it.
struct LevelLinks {
  double steps = 0;             // of a ring once around: those that cross this level
  double tree_steps = 0;        // of a tree, one way
  double peers = 0;             // part of a device's peers whose data crosses this level
  double ring_bandwidth = 0;    // bytes/s that a ring moves through this level; above 0
  double device_bandwidth = 0;  // bytes/s that one device moves through this level; above 0
  double processor_usage = 0;   // proto/cluster.proto, Level
  bool alone = false;           // one member in each unit of the level below
  absl::InlinedVector<ProtocolCost, 3> protocols;  // at least one
};

// The links of a group of several devices, or of one device and its partner on another stage.
struct GroupLinks {
  int devices = 1;
  bool direct = false;  // members read the data of others in place: one latency for any primitive
  absl::InlinedVector<LevelLinks, 2> levels;  // those that the group crosses, innermost first
};

// Links of a group along `axes`: of all such groups the slowest. Requires axes of the mesh.
GroupLinks LinksOfGroup(const proto::Cluster& cluster, const Mesh& mesh,
                        const std::vector<int>& axes);

// Links of a device of one stage and the device of the same coordinate of another: of all such
// pairs the slowest.
GroupLinks LinksOfStages(const proto::Cluster& cluster, const Mesh& mesh, int stage, int other);

// Seconds of one firing; `received`: ReceivedBytes. 0 if nothing is received. CHECKs that it is a
// primitive (oneflow_core/tensor/primitive.h).
double ExchangeSeconds(std::string_view primitive, double received, const GroupLinks& links);

// The share of a device's processors that an exchange keeps busy: the largest of the levels it
// crosses.
double ProcessorUsage(const GroupLinks& links);

// Bytes that one of `devices` devices receives: Primitive::received. CHECKs that it is a primitive.
double ReceivedBytes(std::string_view primitive, double tensor_bytes, int devices);

// A link: a latency and a bandwidth.
struct Link {
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes/s a device, one direction; above 0
  bool operator==(const Link&) const = default;
};

// The link of a level of the topology; 0 is the innermost. Requires that the level exists.
Link LinkOfLevel(const proto::Cluster& cluster, int level);

// The innermost level of the topology that holds every group along `axis`; for the stage axis,
// every pair of devices of the same coordinate. The outermost if no level does, 0 if there are
// none.
int LevelOfAxis(const proto::Cluster& cluster, const Mesh& mesh, int axis);
int LevelOfStages(const proto::Cluster& cluster, const Mesh& mesh, int stage, int other);

// The bandwidth of the fastest of all links.
double FastestBandwidth(const proto::Cluster& cluster);

}  // namespace oneflow
