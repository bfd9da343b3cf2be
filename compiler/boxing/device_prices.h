// What a cluster says of its devices, and what stands in where it does not say: memory twenty times
// as fast as the links that stand in for unknown ones (proto/cluster.proto), as it is of GPUs.
#pragma once

#include "proto/cluster.pb.h"

namespace oneflow {

// Bytes/s of memory, one way.
inline double MemoryBandwidth(const proto::Cluster& cluster) {
  const double known = cluster.device().memory_bandwidth();
  return known > 0 ? known : 2e11;
}
// Seconds of a firing beside its kernel.
inline double FiringSeconds(const proto::Cluster& cluster) {
  const double known = cluster.device().firing_seconds();
  return known > 0 ? known : 1e-7;
}
// The device with what it does not say of its memory.
inline proto::Device KnownDevice(const proto::Cluster& cluster) {
  proto::Device device = cluster.device();
  device.set_memory_bandwidth(MemoryBandwidth(cluster));
  return device;
}

}  // namespace oneflow
