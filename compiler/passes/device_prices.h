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
// FLOP/s of matrix products.
inline double PeakFlops(const proto::Cluster& cluster) {
  const double known = cluster.device().peak_flops();
  return known > 0 ? known : 1e11;
}

}  // namespace oneflow
