// The clusters that stand in for one that does not state its rates. A cluster that states them has
// the costs of the simulator.
#pragma once

#include "proto/cluster.pb.h"

namespace oneflow {

// Returns the cluster for the search of layouts. An unknown cluster, without links and rates of
// devices, becomes accelerators with equal links (1.1 us an exchange, 10 GB/s). Their memory is
// twenty times as fast, and a kernel takes at least 0.1 us: the layouts suit most clusters.
inline proto::Cluster ClusterForLayouts(const proto::Cluster& cluster) {
  const proto::Device& device = cluster.device();
  const bool known = cluster.level_size() > 0 || device.peak_flops() > 0 ||
                     device.peak_flops_bf16() > 0 || device.memory_bandwidth() > 0 ||
                     device.kernel_time_size() > 0;
  if (known) return cluster;
  proto::Cluster alike;
  alike.mutable_device()->set_kind(proto::Device::CUDA);
  alike.mutable_device()->set_memory_bandwidth(2e11);
  alike.mutable_device()->set_kernel_seconds(1e-7);
  proto::Level* level = alike.add_level();
  level->set_bandwidth(1e10);
  proto::Protocol* protocol = level->add_protocol();
  protocol->set_ring_start(1.1e-6);
  protocol->set_ring_share(1);
  return alike;
}

// Returns the cluster for the path between two layouts. A firing of a CPU device of unknown rate
// takes 1 us, so that a small sum is not taken in pieces.
inline proto::Cluster ClusterForBoxing(proto::Cluster cluster) {
  proto::Device* device = cluster.mutable_device();
  if (device->kind() == proto::Device::CPU && device->firing_seconds() == 0) {
    device->set_firing_seconds(1e-6);
  }
  return cluster;
}

}  // namespace oneflow
