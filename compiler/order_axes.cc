#include "compiler/order_axes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/boxing/boxing_path.h"
#include "oneflow_core/cost/boxing_cost.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

constexpr size_t kMostGroups = 6;

// An exchange of which only the axes' ranks depend on their order.
struct Exchange {
  BoxingWork work;                // without axes
  std::vector<std::string> axes;  // by name
  double firings = 0;             // in a step

  auto Key() const {
    return std::tuple(work.primitive, axes, work.from, work.to, work.members, work.dtype, work.sums,
                      work.written, work.received);
  }
};

Exchange MakeExchange(const Graph& graph, const Op& op) {
  Exchange exchange{MakeWork(graph, op), {}};
  for (const int axis : exchange.work.axes) {
    exchange.axes.push_back(graph.mesh.axes[axis].name);
  }
  exchange.work.axes.clear();
  return exchange;
}

// Exchanges of the update that are alike but for their tensors, as the buckets that lowering makes
// of them (lower/buckets.h): of equal size, as few as hold all bytes.
class Buckets {
 public:
  void Add(const Exchange& one) {
    auto [it, fresh] = all_.try_emplace(
        std::tuple(one.work.primitive, one.axes, one.work.dtype, one.work.sums), one);
    if (fresh) return;
    it->second.work.written += one.work.written;
    it->second.work.received += one.work.received;
  }
  void AddTo(double bytes, std::vector<Exchange>* exchanges) const {
    for (const auto& [key, all] : all_) {
      Exchange bucket = all;
      bucket.firings = std::max(1.0, std::ceil(all.work.written / bytes));
      bucket.work.written /= bucket.firings;
      bucket.work.received /= bucket.firings;
      exchanges->push_back(std::move(bucket));
    }
  }

 private:
  std::map<std::tuple<std::string_view, std::vector<std::string>, DType, bool>, Exchange> all_;
};

// Those of a step; layers have the same ones.
std::vector<Exchange> CollectExchanges(const Graph& graph, int64_t micro_batches,
                                       int64_t bucket_bytes) {
  Buckets buckets;
  std::vector<Exchange> exchanges;
  std::map<decltype(Exchange().Key()), size_t> known;
  for (const Op& op : graph.ops) {
    if (!IsExchange(op.kind)) continue;
    const Exchange one = MakeExchange(graph, op);
    if (op.phase == Phase::kUpdate && IsCollective(op.kind) && bucket_bytes > 0) {
      buckets.Add(one);
      continue;
    }
    const auto [it, fresh] = known.try_emplace(one.Key(), exchanges.size());
    if (fresh) exchanges.push_back(one);
    exchanges[it->second].firings += IsOnceAStep(op.phase) ? 1 : static_cast<double>(micro_batches);
  }
  buckets.AddTo(static_cast<double>(bucket_bytes), &exchanges);
  return exchanges;
}

double Seconds(const std::vector<Exchange>& exchanges, const Mesh& mesh,
               const proto::Cluster& cluster, const KernelCost& kernels) {
  double seconds = 0;
  for (const Exchange& exchange : exchanges) {
    BoxingWork work = exchange.work;
    for (const std::string& axis : exchange.axes) work.axes.push_back(mesh.FindAxis(axis));
    std::sort(work.axes.begin(), work.axes.end());
    seconds += exchange.firings * BoxingTime(work, mesh, cluster, kernels).both();
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

// The mesh of these groups, one after the other.
Mesh Join(const std::vector<std::vector<Mesh::Axis>>& groups) {
  Mesh mesh;
  for (const auto& group : groups) mesh.axes.insert(mesh.axes.end(), group.begin(), group.end());
  return mesh;
}

// Of meshes with the axes of `graph`, tried one after the other, the one that takes least.
class Cheapest {
 public:
  Cheapest(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
           int64_t bucket_bytes)
      : exchanges_(CollectExchanges(graph, micro_batches, bucket_bytes)),
        cluster_(cluster),
        kernels_(cluster.device()),
        best_(graph.mesh),
        least_(Seconds(exchanges_, best_, cluster_, kernels_)) {}

  void Try(const Mesh& mesh) {
    const double seconds = Seconds(exchanges_, mesh, cluster_, kernels_);
    if (seconds >= least_ * (1 - 1e-9)) return;
    best_ = mesh;
    least_ = seconds;
  }
  const Mesh& best() const { return best_; }

 private:
  const std::vector<Exchange> exchanges_;
  const proto::Cluster& cluster_;
  const KernelCost kernels_;
  Mesh best_;
  double least_;
};

}  // namespace

Mesh OrderAxes(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
               int64_t bucket_bytes) {
  const std::vector<std::vector<Mesh::Axis>> groups = Groups(graph.mesh);
  if (groups.size() > kMostGroups) return graph.mesh;
  Cheapest cheapest(graph, cluster, micro_batches, bucket_bytes);
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  while (std::next_permutation(order.begin(), order.end())) {
    std::vector<std::vector<Mesh::Axis>> ordered;
    for (const size_t g : order) ordered.push_back(groups[g]);
    cheapest.Try(Join(ordered));
  }
  return cheapest.best();
}

Mesh PlaceStages(const Graph& graph, const proto::Cluster& cluster, int64_t micro_batches,
                 int64_t bucket_bytes) {
  const int axis = graph.mesh.stage_axis();
  if (axis < 0) return graph.mesh;
  Mesh others = graph.mesh;
  others.axes.erase(others.axes.begin() + axis);
  const std::vector<std::vector<Mesh::Axis>> groups = Groups(others);
  Cheapest cheapest(graph, cluster, micro_batches, bucket_bytes);
  for (size_t at = 0; at <= groups.size(); ++at) {
    std::vector<std::vector<Mesh::Axis>> with = groups;
    with.insert(with.begin() + static_cast<int64_t>(at), {graph.mesh.axes[axis]});
    cheapest.Try(Join(with));
  }
  return cheapest.best();
}

}  // namespace oneflow
