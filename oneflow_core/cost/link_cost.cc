#include "oneflow_core/cost/link_cost.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <glog/logging.h>

namespace oneflow {
namespace {

// Of a cluster that says nothing: proto/cluster.proto.
constexpr double kLatency = 1e-6, kBandwidth = 1e10;

// Devices of a unit of a level.
int64_t UnitOf(const proto::Cluster& cluster, int level) {
  int64_t devices = 1;
  for (int l = 0; l <= level; ++l) devices *= std::max(1, cluster.level(l).size());
  return devices;
}

// Ranks from one coordinate of the axis to the next.
int64_t StrideOf(const Mesh& mesh, int axis) {
  int64_t stride = 1;
  for (size_t a = axis + 1; a < mesh.axes.size(); ++a) stride *= mesh.axes[a].size;
  return stride;
}

// Whether units of `unit` ranks hold whole every aligned block of `block` ranks, in which a group
// begins and ends.
bool Holds(int64_t unit, int64_t block, int64_t ranks) {
  return ranks <= unit || unit % block == 0;
}

}  // namespace

Link LinkOfLevel(const proto::Cluster& cluster, int level) {
  const double bandwidth = cluster.level(level).bandwidth();
  return {cluster.level(level).latency(), bandwidth > 0 ? bandwidth : kBandwidth};
}

int LevelOfAxis(const proto::Cluster& cluster, const Mesh& mesh, int axis) {
  const int64_t block = StrideOf(mesh, axis) * mesh.axes[axis].size;
  int level = 0;
  while (level < cluster.level_size() - 1 &&
         !Holds(UnitOf(cluster, level), block, mesh.devices())) {
    ++level;
  }
  return level;
}

Link LinkOfAxis(const proto::Cluster& cluster, const Mesh& mesh, int axis) {
  if (cluster.level_size() == 0) return {kLatency, kBandwidth};
  const int64_t stride = StrideOf(mesh, axis), size = mesh.axes[axis].size;
  const int level = LevelOfAxis(cluster, mesh, axis);
  Link link = LinkOfLevel(cluster, level);
  if (level == 0) return link;
  const Link inside = LinkOfLevel(cluster, level - 1);
  const int64_t members = std::clamp<int64_t>(UnitOf(cluster, level - 1) / stride, 1, size);
  const double together = static_cast<double>(members) * link.bandwidth;
  link.bandwidth = members == 1 ? link.bandwidth : std::min(together, inside.bandwidth);
  return link;
}

int LevelOfStages(const proto::Cluster& cluster, const Mesh& mesh, int stage, int other) {
  const int axis = mesh.stage_axis();
  const int64_t stride = axis < 0 ? 1 : StrideOf(mesh, axis);
  const int64_t size = mesh.stages(), blocks = mesh.devices() / (stride * size);
  const int64_t first = std::min(stage, other) * stride, last = std::max(stage, other) * stride;
  const auto holds = [&](int64_t unit) {
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = block * stride * size + first, end = block * stride * size + last;
      // The two differ in their unit for one of the `stride` pairs that lie side by side.
      if (begin / unit != end / unit || (begin + stride - 1) / unit != (end + stride - 1) / unit) {
        return false;
      }
      if (unit % (stride * size) == 0) break;  // all blocks alike
    }
    return true;
  };
  int level = 0;
  while (level < cluster.level_size() - 1 && !holds(UnitOf(cluster, level))) ++level;
  return level;
}

Link LinkOfStages(const proto::Cluster& cluster, const Mesh& mesh, int stage, int other) {
  if (cluster.level_size() == 0) return {kLatency, kBandwidth};
  return LinkOfLevel(cluster, LevelOfStages(cluster, mesh, stage, other));
}

double FastestBandwidth(const proto::Cluster& cluster) {
  double fastest = cluster.level_size() == 0 ? kBandwidth : 0;
  for (int level = 0; level < cluster.level_size(); ++level) {
    fastest = std::max(fastest, LinkOfLevel(cluster, level).bandwidth);
  }
  return fastest;
}

double ReceivedBytes(std::string_view primitive, double tensor_bytes, int devices) {
  const double p = devices, others = devices - 1;
  if (primitive == "slice" || primitive == "zero_fill") return 0;
  if (primitive == "transfer") return tensor_bytes;
  if (primitive == "all_gather" || primitive == "reduce_scatter") return others / p * tensor_bytes;
  if (primitive == "all_reduce") return 2 * others / p * tensor_bytes;
  CHECK(primitive == "all_to_all") << "no primitive of boxing: " << primitive;
  return others / (p * p) * tensor_bytes;
}

double PrimitiveSeconds(std::string_view primitive, double tensor_bytes, int devices,
                        const Link& link) {
  const double bytes = ReceivedBytes(primitive, tensor_bytes, devices);
  return bytes > 0 ? link.latency + bytes / link.bandwidth : 0;
}

}  // namespace oneflow
