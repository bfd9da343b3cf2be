// The times of copies between a device's memory and the host's, and of the work of the host for a
// device in its own memory.
//
//   double seconds = HostCopySeconds(HostCopy::kToHost, /*bytes=*/1 << 30, cluster);
//
// A copy takes a latency, and its bytes over the bandwidth of the link in its direction. Devices
// that share a link copy at the same time, so each has its part (proto/cluster.proto, HostLink).
// The two directions do not disturb each other. If the cluster states no bandwidth, a GPU has 20
// GB/s each way. A CPU device then has the rate at which its memory copies: half its
// memory_bandwidth, which counts bytes read and written, or 5 GB/s. Without any host_link a copy of
// a GPU has a latency of 10 us.
//
// The work of the host is bound by its memory. The host of a CPU device is the device itself:
// kernels take their times of kernel_cost.h. On a GPU's host a kernel takes its bytes, read and
// written, over host_bandwidth, or over 10 GB/s if that is unknown.
//
// It ignores all else that the link, or the host's memory, carries at the same time. Pure
// functions.
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

// Seconds of one copy of `bytes` bytes, which are counted once.
double HostCopySeconds(HostCopy direction, double bytes, const proto::Cluster& cluster);

// Lists the figures that the cluster does not state: "20 GB/s to the host, 20 GB/s from it, 10 us a
// copy"; "" if it states all. `host_computes`: kernels run on the host.
std::string AssumedOfHost(const proto::Cluster& cluster, bool host_computes);

// Seconds of one call of a kernel on the host. `kernels`: of the cluster's device.
double HostComputeSeconds(const CallWork& call, const proto::Cluster& cluster,
                          const KernelCost& kernels);

}  // namespace oneflow
