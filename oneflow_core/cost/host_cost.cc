#include "oneflow_core/cost/host_cost.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

// Of a cluster that says nothing.
constexpr double kGpuBandwidth = 2e10, kGpuLatency = 1e-5;
constexpr double kCpuBandwidth = 5e9, kHostBandwidth = 1e10;

double DefaultBandwidth(const proto::Device& device) {
  if (device.kind() != proto::Device::CPU) return kGpuBandwidth;
  return device.memory_bandwidth() > 0 ? device.memory_bandwidth() / 2 : kCpuBandwidth;
}

bool LatencyUnknown(const proto::Cluster& cluster) {
  return !cluster.has_host_link() && cluster.device().kind() != proto::Device::CPU;
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
  const double latency = LatencyUnknown(cluster) ? kGpuLatency : link.latency();
  return latency + bytes * std::max(1, link.sharing()) / bandwidth;
}

std::string AssumedOfHost(const proto::Cluster& cluster, bool host_computes) {
  const proto::HostLink& link = cluster.host_link();
  const double bandwidth = DefaultBandwidth(cluster.device());
  std::vector<std::string> parts;
  const auto rate = [&](double known, double assumed, const char* of) {
    if (known <= 0) parts.push_back(absl::StrFormat("%.4g GB/s %s", assumed / 1e9, of));
  };
  rate(link.to_host(), bandwidth, "to the host");
  rate(link.from_host(), bandwidth, "from it");
  if (LatencyUnknown(cluster)) {
    parts.push_back(absl::StrFormat("%.4g us a copy", kGpuLatency * 1e6));
  }
  const bool gpu = cluster.device().kind() != proto::Device::CPU;
  if (host_computes && gpu) rate(link.host_bandwidth(), kHostBandwidth, "of its memory");
  return absl::StrJoin(parts, ", ");
}

double HostComputeSeconds(const CallWork& call, const proto::Cluster& cluster,
                          const KernelCost& kernels) {
  if (cluster.device().kind() == proto::Device::CPU) return kernels.Seconds(call);
  const double bandwidth = cluster.host_link().host_bandwidth();
  return call.bytes / (bandwidth > 0 ? bandwidth : kHostBandwidth);
}

}  // namespace oneflow
