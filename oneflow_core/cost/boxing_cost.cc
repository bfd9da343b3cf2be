#include "oneflow_core/cost/boxing_cost.h"

#include <algorithm>
#include <cmath>

#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// Assumed bytes of a packet, and packets in flight to a member, if they are not counted.
constexpr double kPacketBytes = 256 << 10, kMostPulls = 2;

bool IsCpu(const proto::Cluster& cluster) { return cluster.device().kind() == proto::Device::CPU; }

bool IsExchange(const BoxingWork& work) { return !work.axes.empty() || work.to >= 0; }

GroupLinks FindLinks(const BoxingWork& work, const Mesh& mesh, const proto::Cluster& cluster) {
  if (work.to >= 0) return LinksOfStages(cluster, mesh, work.from, work.to);
  return LinksOfGroup(cluster, mesh, work.axes);
}

// The innermost level that holds all members.
int FindLevel(const BoxingWork& work, const Mesh& mesh, const proto::Cluster& cluster) {
  if (work.to >= 0) return LevelOfStages(cluster, mesh, work.from, work.to);
  int level = 0;
  for (const int axis : work.axes) level = std::max(level, LevelOfAxis(cluster, mesh, axis));
  return level;
}

// The device's own part: what is written, from one source; of a sum, from each. A copy, or a sum,
// whatever the primitive's name.
CallWork MakeCopy(const BoxingWork& work) {
  const double sources = work.sums ? work.members : 1;
  return {.kernel = work.sums ? kSumKernel : kCopyKernel,
          .dtype = work.dtype,
          .flops = work.flops,
          .bytes = (sources + 1) * work.written + work.rewritten};
}

ActorTime FarTime(const BoxingWork& work, const Mesh& mesh, const proto::Cluster& cluster,
                  const KernelCost& kernels, const FarTraffic* far) {
  FarTraffic traffic;
  if (far != nullptr) {
    traffic = *far;
  } else {
    traffic = {.bytes = work.received,
               .packets = std::ceil(work.received / kPacketBytes),
               .most_pulls = kMostPulls,
               .placed = work.received};
  }
  ActorTime time{FiringSeconds(cluster),
                 LinkSeconds(traffic, LinkOfLevel(cluster, FindLevel(work, mesh, cluster)))};
  CallWork call = MakeCopy(work);
  if (!work.sums) {
    call.bytes = 2 * std::max(0.0, work.written - traffic.placed);
    if (call.bytes == 0) return time;
  }
  time.worker += kernels.Seconds(call);
  return time;
}

}  // namespace

double BytesOverLinks(const BoxingWork& work, double taken) {
  const bool sums_in_ring = GetPrimitive(work.primitive).rounds == LinkRounds::kTwice;
  return sums_in_ring ? ReceivedBytes(work.primitive, work.written, work.members) : taken;
}

double FiringSeconds(const proto::Cluster& cluster) {
  return IsCpu(cluster) ? cluster.device().firing_seconds() : 0;
}

bool IsBetweenProcesses(const BoxingWork& work, const Mesh& mesh, const proto::Cluster& cluster) {
  return IsExchange(work) && IsCpu(cluster) && cluster.level_size() > 1 &&
         FindLevel(work, mesh, cluster) > 0;
}

ActorTime BoxingTime(const BoxingWork& work, const Mesh& mesh, const proto::Cluster& cluster,
                     const KernelCost& kernels, const FarTraffic* far) {
  if (IsBetweenProcesses(work, mesh, cluster)) return FarTime(work, mesh, cluster, kernels, far);
  const double firing = FiringSeconds(cluster);
  if (!IsCpu(cluster) && IsExchange(work) && work.received > 0) {
    const GroupLinks links = FindLinks(work, mesh, cluster);
    return {firing + ExchangeSeconds(work.primitive, work.received, links), 0,
            ProcessorUsage(links)};
  }
  return {firing + kernels.Seconds(MakeCopy(work))};
}

double LeastBoxingSeconds(double written, const proto::Cluster& cluster,
                          const KernelCost& kernels) {
  const double firing = FiringSeconds(cluster);
  // What comes over links may take no worker.
  if (!IsCpu(cluster) || cluster.level_size() > 1) return firing;
  return firing + kernels.LeastSeconds(2 * written);
}

double LinkSeconds(const FarTraffic& traffic, const Link& link) {
  // All that is said before the first packet and after the last.
  const double alone = 2 * link.latency;
  if (traffic.packets == 0) return alone;
  const double there_and_back = 2 * link.latency;
  const double of_packet = traffic.bytes / traffic.packets / link.bandwidth;
  // As fast as the link, or as packets follow each other where few are asked for at once.
  const double in_turn =
      std::ceil(traffic.packets / traffic.most_pulls) * (there_and_back + of_packet);
  return alone + std::max(there_and_back + traffic.bytes / link.bandwidth, in_turn);
}

}  // namespace oneflow
