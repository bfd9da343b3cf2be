// How long copies between a device's memory and the host's take, and what the host computes for a
// device in its own memory.
//
//   double seconds = HostCopySeconds(HostCopy::kToHost, /*bytes=*/1 << 30, cluster);
//
// A copy takes a latency, and its bytes over the bandwidth of the link in its direction; devices
// that share a link copy at the same time, so each has its part (proto/cluster.proto, HostLink).
// The two directions do not disturb each other. A cluster that says nothing of a bandwidth has
// 20 GB/s each way for a GPU, and for a CPU device what its memory copies: half its
// memory_bandwidth, which counts bytes read and written, or 5 GB/s. Without any host_link a copy of
// a GPU has a latency of 10 us.
//
// What the host computes is bound by its memory. That of a CPU device is the device's: kernels take
// what they take there (kernel_cost.h). On a GPU's host a kernel takes its bytes, read and written,
// over host_bandwidth, or over 10 GB/s if that is unknown.
//
// It knows nothing of what else the link, or the host's memory, carries meanwhile. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "oneflow_core/cost/kernel_cost.h"
#include "proto/cluster.pb.h"

namespace oneflow {

enum class HostCopy { kToHost, kFromHost };

// The direction of a kernel that copies; none for every other kernel.
std::optional<HostCopy> FindHostCopy(std::string_view kernel);

// Of one copy of `bytes` bytes, which are counted once.
double HostCopySeconds(HostCopy direction, double bytes, const proto::Cluster& cluster);

// What of these the cluster does not say, in words: "20 GB/s to the host, 20 GB/s from it, 10 us a
// copy"; "" if it says all. `host_computes`: kernels run on the host.
std::string AssumedOfHost(const proto::Cluster& cluster, bool host_computes);

// Of one call of a kernel on the host. `kernels`: of the cluster's device.
double HostComputeSeconds(const CallWork& call, const proto::Cluster& cluster,
                          const KernelCost& kernels);

}  // namespace oneflow
