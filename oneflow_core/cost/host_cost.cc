#include "oneflow_core/cost/host_cost.h"

#include <algorithm>

namespace oneflow {
namespace {

// Of a cluster that says nothing.
constexpr double kGpuBandwidth = 2e10, kGpuLatency = 1e-5;
constexpr double kCpuBandwidth = 5e9, kHostBandwidth = 1e10;

double DefaultBandwidth(const proto::Device& device) {
  if (device.kind() != proto::Device::CPU) return kGpuBandwidth;
  return device.memory_bandwidth() > 0 ? device.memory_bandwidth() / 2 : kCpuBandwidth;
}

}  // namespace

std::optional<HostCopy> FindHostCopy(std::string_view kernel) {
  if (kernel == "copy_out") return HostCopy::kToHost;
  if (kernel == "copy_in") return HostCopy::kFromHost;
  return std::nullopt;
}

double HostCopySeconds(HostCopy direction, double bytes, const proto::Cluster& cluster) {
  const proto::HostLink& link = cluster.host_link();
  double bandwidth = direction == HostCopy::kToHost ? link.to_host() : link.from_host();
  if (bandwidth <= 0) bandwidth = DefaultBandwidth(cluster.device());
  const bool unknown = !cluster.has_host_link() && cluster.device().kind() != proto::Device::CPU;
  const double latency = unknown ? kGpuLatency : link.latency();
  return latency + bytes * std::max(1, link.sharing()) / bandwidth;
}

double HostComputeSeconds(const CallWork& call, const proto::Cluster& cluster,
                          const KernelCost& kernels) {
  if (cluster.device().kind() == proto::Device::CPU) return kernels.Seconds(call);
  const double bandwidth = cluster.host_link().host_bandwidth();
  return call.bytes / (bandwidth > 0 ? bandwidth : kHostBandwidth);
}

}  // namespace oneflow
