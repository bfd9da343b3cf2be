#include "compiler/lay_axes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/boxing/boxing_primitive.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

constexpr size_t kMostGroups = 6;

// What a device receives in a step.
struct Traffic {
  double firings = 0, bytes = 0;
};
using TrafficOfAxes = std::map<std::vector<std::string>, Traffic>;  // by the axes it goes along

void AddOp(const Graph& graph, const Op& op, double firings, TrafficOfAxes* traffic) {
  const Tensor &from = graph.tensors[op.inputs[0]], &to = graph.tensors[op.outputs[0]];
  std::vector<std::string> axes;
  int64_t elements = 0;
  if (op.kind == "transfer") {
    axes.push_back(graph.mesh.axes[graph.mesh.stage_axis()].name);
    elements = MaxElements(MakeLayout(to.shape.dims, to.sbp), graph.mesh);
  } else {
    const BoxingPrimitive primitive = PrimitiveBetween(graph.mesh, from.sbp, to.sbp);
    for (const int axis : primitive.along) axes.push_back(graph.mesh.axes[axis].name);
    elements = MostReceived({graph.mesh, to.shape.dims, from.sbp, to.sbp, primitive});
  }
  if (axes.empty()) return;
  Traffic& sum = (*traffic)[axes];
  sum.firings += firings;
  sum.bytes +=
      firings * static_cast<double>(elements) * static_cast<double>(ElementBytes(to.dtype));
}

TrafficOfAxes TrafficOf(const Graph& graph, int64_t micro_batches) {
  TrafficOfAxes traffic;
  for (const Op& op : graph.ops) {
    const double firings = IsOnceAStep(op.phase) ? 1 : static_cast<double>(micro_batches);
    if (IsBoxing(op.kind)) AddOp(graph, op, firings, &traffic);
  }
  return traffic;
}

double Seconds(const TrafficOfAxes& traffic, const Mesh& mesh, const proto::Cluster& cluster) {
  double seconds = 0;
  for (const auto& [axes, sum] : traffic) {
    double most = 0;
    for (const std::string& axis : axes) {
      const Link link = LinkOfAxis(cluster, mesh, mesh.FindAxis(axis));
      most = std::max(most, sum.firings * link.latency + sum.bytes / link.bandwidth);
    }
    seconds += most;
  }
  return seconds;
}

// The axes by the name before the dot: "data.0" and "data.1" are one group.
std::vector<std::vector<Mesh::Axis>> Groups(const Mesh& mesh) {
  std::vector<std::vector<Mesh::Axis>> groups;
  std::string last;
  for (const Mesh::Axis& axis : mesh.axes) {
    const std::string name = axis.name.substr(0, axis.name.find('.'));
    if (groups.empty() || name != last) groups.emplace_back();
    groups.back().push_back(axis);
    last = name;
  }
  return groups;
}

}  // namespace

Mesh LaidAxes(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches) {
  const std::vector<std::vector<Mesh::Axis>> groups = Groups(graph.mesh);
  if (groups.size() > kMostGroups) return graph.mesh;
  const TrafficOfAxes traffic = TrafficOf(graph, micro_batches);
  Mesh best = graph.mesh;
  double least = Seconds(traffic, best, cluster);
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  while (std::next_permutation(order.begin(), order.end())) {
    Mesh mesh;
    for (const size_t g : order) {
      mesh.axes.insert(mesh.axes.end(), groups[g].begin(), groups[g].end());
    }
    const double seconds = Seconds(traffic, mesh, cluster);
    if (seconds >= least * (1 - 1e-9)) continue;
    best = mesh;
    least = seconds;
  }
  return best;
}

}  // namespace oneflow
