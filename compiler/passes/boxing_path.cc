#include "compiler/passes/boxing_path.h"

#include <glog/logging.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "compiler/passes/boxing_primitive.h"
#include "compiler/passes/device_prices.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

const Mesh& MeshOf(const BoxingPrices& prices, const std::optional<SubMesh>& sub_mesh) {
  return sub_mesh ? sub_mesh->mesh : prices.mesh;
}

// What is received over the slowest of the links, all latencies once.
double ReceiveSeconds(const BoxingPrices& prices, const std::optional<SubMesh>& sub_mesh,
                      const std::vector<int>& along, double bytes) {
  double most = 0;
  for (const int axis : along) {
    if (MeshOf(prices, sub_mesh).axes[axis].size == 1) continue;
    const Link link = sub_mesh ? LinkOfAxis(prices.cluster, prices.mesh, *sub_mesh, axis)
                               : LinkOfAxis(prices.cluster, prices.mesh, axis);
    most = std::max(most, link.latency + bytes / link.bandwidth);
  }
  return most;
}

constexpr double kNoWay = std::numeric_limits<double>::infinity();
// Sums in another order may be a rounding apart.
constexpr double kRounding = 1 + 1e-12;

// Of a step that leads to `to`, whatever is received: a firing, and what is written.
double LocalSeconds(const BoxingPrices& prices, const BoxedTensor& tensor, const MeshSbp& to) {
  const int64_t written = MaxElements(LayoutOf(tensor.dims, to.sbp, to.sub_mesh), prices.mesh);
  return FiringSeconds(prices.cluster) +
         static_cast<double>(written * tensor.element_bytes) / MemoryBandwidth(prices.cluster);
}

bool AnyPartial(const NdSbp& sbp) {
  return std::any_of(sbp.begin(), sbp.end(), [](Sbp s) { return s.partial(); });
}

int Changes(const NdSbp& a, const NdSbp& b) {
  int changes = 0;
  for (size_t i = 0; i < a.size(); ++i) changes += a[i] == b[i] ? 0 : 1;
  return changes;
}

// Dijkstra over nd-SBPs: those on the mesh of `from` and, where it is another, those on that of
// `to`. What cannot be on a way shorter than one that is known is left out (LeastFrom).
class PathSearch {
 public:
  // most_axes: that one step changes. most_seconds: ways that take longer are not looked for.
  PathSearch(const BoxingPrices& prices, const BoxedTensor& tensor, const MeshSbp& from,
             const MeshSbp& to, int most_axes, double most_seconds)
      : prices_(prices),
        tensor_(tensor),
        from_(from),
        to_(to),
        most_axes_(most_axes),
        most_seconds_(most_seconds) {
    const Dims at_first = PartsOf(from), at_last = PartsOf(to);
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      most_parts_.push_back(std::max({tensor.dims[d], at_first[d], at_last[d]}));
    }
    const Coordinate first(prices.mesh.axes.size(), 0);
    Coordinate last;
    for (const Mesh::Axis& axis : prices.mesh.axes) last.push_back(axis.size - 1);
    for (const Coordinate& c : {first, last}) {
      corners_.push_back({c, SliceOf(LayoutOf(tensor.dims, to.sbp, to.sub_mesh), prices.mesh, c)});
    }
  }

  // Nothing where there is no way.
  std::optional<std::vector<BoxingStep>> Run() {
    nodes_[Find(from_)].seconds = 0;
    while (true) {
      const int at = Nearest();
      if (at < 0) return std::nullopt;
      nodes_[at].done = true;
      if (nodes_[at].lies == to_) return Unwind(at);
      for (const MeshSbp& next : Neighbours(nodes_[at].lies)) Relax(at, next);
    }
  }

 private:
  struct Node {
    MeshSbp lies;
    double written = 0, rest = 0;  // LocalSeconds to it; LeastFrom it
    double seconds = kNoWay;
    int steps = 0;
    int before = -1;
    BoxingStep step;
    bool done = false;
  };

  int Nearest() const {
    int best = -1;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const Node& node = nodes_[i];
      if (node.done || node.seconds == kNoWay) continue;
      if (best < 0 || std::pair(node.seconds, node.steps) <
                          std::pair(nodes_[best].seconds, nodes_[best].steps)) {
        best = i;
      }
    }
    return best;
  }

  // The node of an SBP: a new one where there is none yet.
  int Find(const MeshSbp& lies) {
    std::string key(1, lies.sub_mesh == to_.sub_mesh ? 1 : 0);
    for (const Sbp sbp : lies.sbp) key += {static_cast<char>(sbp.kind), static_cast<char>(sbp.dim)};
    const auto [it, fresh] = known_.try_emplace(std::move(key), static_cast<int>(nodes_.size()));
    if (fresh) nodes_.push_back({lies, LocalSeconds(prices_, tensor_, lies), LeastFrom(lies)});
    return it->second;
  }

  bool IsSum(const MeshSbp& lies) const {
    const Mesh& mesh = MeshOf(prices_, lies.sub_mesh);
    for (size_t a = 0; a < lies.sbp.size(); ++a) {
      if (lies.sbp[a].partial() && mesh.axes[a].size > 1) return true;
    }
    return false;
  }

  // Seconds that any way from here to `to_` takes: a last firing, what it writes, and what a device
  // lacks, over the fastest link. Of a sum that is taken on the way each device lacks all.
  double LeastFrom(const MeshSbp& lies) const {
    if (lies == to_) return 0;
    int64_t lacking = 0;
    for (const auto& [c, mine] : corners_) {
      if (AnyPartial(to_.sbp)) continue;
      const Slice held = SliceOf(LayoutOf(tensor_.dims, lies.sbp, lies.sub_mesh), prices_.mesh, c);
      const int64_t has = IsSum(lies) ? 0 : Intersect(mine, held).elements();
      lacking = std::max(lacking, mine.elements() - has);
    }
    return LocalSeconds(prices_, tensor_, to_) +
           static_cast<double>(lacking * tensor_.element_bytes) / FastestBandwidth(prices_.cluster);
  }

  // SBPs worth passing through on an axis: nothing becomes partial that does not end so.
  std::vector<Sbp> Options(const std::optional<SubMesh>& sub_mesh, int axis) const {
    std::vector<Sbp> options;
    const auto add = [&options](Sbp sbp) {
      if (std::find(options.begin(), options.end(), sbp) == options.end()) options.push_back(sbp);
    };
    const bool last = to_.sub_mesh == sub_mesh;
    if (last) add(to_.sbp[axis]);
    const Mesh& mesh = MeshOf(prices_, sub_mesh);
    if (axis == mesh.stage_axis()) return options;
    const bool one = mesh.axes[axis].size == 1;
    // A part of a sum is none of a maximum, on one device either: what is between them is B.
    const auto partial = [&](const MeshSbp& end) {
      return end.sub_mesh == sub_mesh && end.sbp[axis].partial();
    };
    if (one && last && !partial(from_) && !partial(to_)) return options;
    add(B());
    if (one) return options;
    for (int d = 0; d < static_cast<int>(tensor_.dims.size()); ++d) add(S(d));
    return options;
  }

  // What one primitive may lead to: on the same mesh, then on the other.
  std::vector<MeshSbp> Neighbours(const MeshSbp& at) const {
    std::vector<MeshSbp> all;
    for (NdSbp& sbp : NeighboursOnMesh(at)) all.push_back({at.sub_mesh, std::move(sbp)});
    if (from_.sub_mesh == to_.sub_mesh || AnyPartial(at.sbp)) return all;
    const auto& other = to_.sub_mesh == at.sub_mesh ? from_.sub_mesh : to_.sub_mesh;
    std::vector<NdSbp> there = {{}};
    for (int axis = 0; axis < static_cast<int>(MeshOf(prices_, other).axes.size()); ++axis) {
      std::vector<NdSbp> longer;
      std::vector<Sbp> options = Options(other, axis);
      std::erase_if(options, [](Sbp sbp) { return sbp.partial(); });
      if (options.empty()) options.push_back(B());  // the stage axis
      for (const NdSbp& sbp : there) {
        for (const Sbp option : options) {
          longer.push_back(sbp);
          longer.back().push_back(option);
        }
      }
      there = std::move(longer);
    }
    for (NdSbp& sbp : there) all.push_back({other, std::move(sbp)});
    return all;
  }

  // On the same mesh, `to_` first: all that differ on one axis; and on several, where none of these
  // is partial.
  std::vector<NdSbp> NeighboursOnMesh(const MeshSbp& lies) const {
    const NdSbp& at = lies.sbp;
    std::vector<NdSbp> all = {at};
    for (int axis = 0; axis < static_cast<int>(at.size()); ++axis) {
      const size_t before = all.size();
      for (const Sbp next : Options(lies.sub_mesh, axis)) {
        for (size_t i = 0; i < before && !(next == at[axis]); ++i) {
          const bool partial = at[axis].partial() || next.partial();
          if (i > 0 && (partial || Changes(at, all[i]) == most_axes_)) break;
          all.push_back(all[i]);
          all.back()[axis] = next;
        }
      }
    }
    all.erase(all.begin());
    const auto is_end = [&](const NdSbp& sbp) { return MeshSbp{lies.sub_mesh, sbp} == to_; };
    std::stable_sort(all.begin(), all.end(), [&](const NdSbp& a, const NdSbp& b) {
      return std::pair(!is_end(a), Changes(at, a)) < std::pair(!is_end(b), Changes(at, b));
    });
    return all;
  }

  // Into how many parts each dimension is cut.
  Dims PartsOf(const MeshSbp& lies) const {
    Dims parts(tensor_.dims.size(), 1);
    for (size_t a = 0; a < lies.sbp.size(); ++a) {
      const Sbp sbp = lies.sbp[a];
      if (sbp.split()) parts[sbp.dim] *= MeshOf(prices_, lies.sub_mesh).axes[a].size;
    }
    return parts;
  }

  // No part is empty but where an end's are.
  bool LeavesRoom(const MeshSbp& lies) const {
    const Dims parts = PartsOf(lies);
    for (size_t d = 0; d < parts.size(); ++d) {
      if (parts[d] > most_parts_[d]) return false;
    }
    return true;
  }

  void Relax(int at, const MeshSbp& next) {
    const int found = Find(next);
    const Node& now = nodes_[at];
    if (nodes_[found].done) return;
    // What a step receives costs the most to find out, and the rest is often too much already.
    const double least = now.seconds + nodes_[found].written;
    if (least + nodes_[found].rest > kRounding * most_seconds_) return;
    if (least > kRounding * nodes_[found].seconds) return;
    if (nodes_[found].seconds == kNoWay && !LeavesRoom(next)) return;
    const BoxingStep step = BoxingStepBetween(prices_, tensor_, now.lies, next);
    if (step.kind.empty()) return;
    const double seconds = now.seconds + step.seconds;
    Node& node = nodes_[found];
    if (std::pair(seconds, now.steps + 1) >= std::pair(node.seconds, node.steps)) return;
    node.seconds = seconds, node.steps = now.steps + 1, node.before = at, node.step = step;
    if (next == to_) most_seconds_ = std::min(most_seconds_, seconds);
  }

  std::vector<BoxingStep> Unwind(int at) const {
    std::vector<BoxingStep> steps;
    for (; nodes_[at].before >= 0; at = nodes_[at].before) steps.push_back(nodes_[at].step);
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  const BoxingPrices& prices_;
  const BoxedTensor& tensor_;
  const MeshSbp &from_, &to_;
  const int most_axes_;
  Dims most_parts_;                                    // by dimension
  double most_seconds_;                                // of the whole way
  std::vector<std::pair<Coordinate, Slice>> corners_;  // two devices, and what they need of `to_`
  std::unordered_map<std::string, int> known_;         // nodes, by how they lie
  std::vector<Node> nodes_;
};

}  // namespace

BoxingStep BoxingStepBetween(const BoxingPrices& prices, const BoxedTensor& tensor,
                             const MeshSbp& from, const MeshSbp& to) {
  BoxingStep step{"", to.sbp, to.sub_mesh};
  double exchange = 0;
  if (from.sub_mesh == to.sub_mesh) {
    const Mesh& mesh = MeshOf(prices, to.sub_mesh);
    const BoxingPrimitive primitive = PrimitiveBetween(mesh, from.sbp, to.sbp);
    if (primitive.kind.empty()) return step;
    step.kind = primitive.kind;
    const int64_t received = MostReceived({mesh, tensor.dims, from.sbp, to.sbp, primitive});
    step.bytes = received * tensor.element_bytes;
    exchange =
        ReceiveSeconds(prices, to.sub_mesh, primitive.along, static_cast<double>(step.bytes));
  } else {
    if (AnyPartial(from.sbp) || AnyPartial(to.sbp)) return step;
    step.kind = "send_receive";
    const Crossing crossing =
        CrossingBetween(prices.cluster, prices.mesh, tensor.dims, tensor.element_bytes, from, to);
    step.bytes = crossing.most * tensor.element_bytes;
    exchange = crossing.seconds;
  }
  step.seconds = LocalSeconds(prices, tensor, to) + exchange;
  return step;
}

std::vector<BoxingStep> BoxingPath(const BoxingPrices& prices, const BoxedTensor& tensor,
                                   const MeshSbp& from, const MeshSbp& to) {
  CHECK_EQ(from.sbp.size(), MeshOf(prices, from.sub_mesh).axes.size());
  CHECK_EQ(to.sbp.size(), MeshOf(prices, to.sub_mesh).axes.size());
  // A way by one axis at a time is soon found, and spares most of the search among all.
  const auto one = PathSearch(prices, tensor, from, to, 1, kNoWay).Run();
  double seconds = one ? 0 : kNoWay;
  for (size_t i = 0; one && i < one->size(); ++i) seconds += (*one)[i].seconds;
  auto best = PathSearch(prices, tensor, from, to, std::numeric_limits<int>::max(), seconds).Run();
  CHECK(best.has_value()) << "no boxing from " << ToString(from.sbp) << " to " << ToString(to.sbp);
  return *std::move(best);
}

BoxingStep BoxingStepBetween(const BoxingPrices& prices, const BoxedTensor& tensor,
                             const NdSbp& from, const NdSbp& to) {
  return BoxingStepBetween(prices, tensor, MeshSbp{std::nullopt, from}, MeshSbp{std::nullopt, to});
}

std::vector<BoxingStep> BoxingPath(const BoxingPrices& prices, const BoxedTensor& tensor,
                                   const NdSbp& from, const NdSbp& to) {
  return BoxingPath(prices, tensor, MeshSbp{std::nullopt, from}, MeshSbp{std::nullopt, to});
}

}  // namespace oneflow
