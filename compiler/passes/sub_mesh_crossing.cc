#include "compiler/passes/sub_mesh_crossing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

// A device of the first stage, with its piece. What holds there holds on every stage.
struct Holder {
  int rank = 0;
  Coordinate coordinate;  // in the whole mesh
  Slice slice;
};

std::vector<Holder> HoldersOf(const Mesh& mesh, const Layout& layout) {
  std::vector<Holder> holders;
  for (const int rank : mesh.RanksOfStage(0)) {
    Coordinate c = mesh.CoordinateOf(rank);
    Slice slice = SliceOf(layout, mesh, c);
    if (!slice.outside) holders.push_back({rank, std::move(c), std::move(slice)});
  }
  return holders;
}

// Of the sources that hold the same, the one nearest to `reader`.
std::vector<const Holder*> Nearest(const std::vector<Holder>& sources, const Holder& reader) {
  std::vector<const Holder*> nearest;
  for (const Holder& source : sources) {
    const auto same = std::find_if(nearest.begin(), nearest.end(), [&](const Holder* other) {
      return other->slice == source.slice;
    });
    if (same == nearest.end()) {
      nearest.push_back(&source);
    } else if (Distance(source.coordinate, reader.coordinate) <
               Distance((*same)->coordinate, reader.coordinate)) {
      *same = &source;
    }
  }
  return nearest;
}

}  // namespace

Crossing CrossingBetween(const proto::Cluster& cluster, const Mesh& mesh, const Dims& dims,
                         int64_t element_bytes, const MeshSbp& from, const MeshSbp& to) {
  const auto sources = HoldersOf(mesh, LayoutOf(dims, from.sbp, from.sub_mesh));
  Crossing crossing;
  for (const Holder& reader : HoldersOf(mesh, LayoutOf(dims, to.sbp, to.sub_mesh))) {
    int64_t received = 0;
    double latency = 0, seconds = 0;
    for (const Holder* source : Nearest(sources, reader)) {
      const int64_t elements = Intersect(source->slice, reader.slice).elements();
      if (elements == 0 || source->rank == reader.rank) continue;
      const Link link = LinkBetween(cluster, source->rank, reader.rank);
      received += elements;
      latency = std::max(latency, link.latency);
      seconds += static_cast<double>(elements * element_bytes) / link.bandwidth;
    }
    crossing.all += received;
    crossing.most = std::max(crossing.most, received);
    crossing.seconds = std::max(crossing.seconds, latency + seconds);
  }
  return crossing;
}

Link LinkOfAxis(const proto::Cluster& cluster, const Mesh& mesh, const SubMesh& sub, int axis) {
  const std::vector<int> ranks = mesh.RanksOfStage(0);
  Link slowest = LinkBetween(cluster, 0, 0);
  for (int group = 0; group < sub.mesh.devices(); ++group) {
    Coordinate c = sub.mesh.CoordinateOf(group);
    if (c[axis] != 0) continue;
    const int begin = DeviceAt(sub, c);
    c[axis] = sub.mesh.axes[axis].size - 1;
    const Link link = LinkBetween(cluster, ranks[begin], ranks[DeviceAt(sub, c)]);
    slowest.latency = std::max(slowest.latency, link.latency);
    slowest.bandwidth = std::min(slowest.bandwidth, link.bandwidth);
  }
  return slowest;
}

}  // namespace oneflow
