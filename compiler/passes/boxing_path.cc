#include "compiler/passes/boxing_path.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/passes/boxing_primitive.h"
#include "compiler/passes/device_prices.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

// What is received over the slowest of the links, all latencies once.
double ReceiveSeconds(const BoxingPrices& prices, const std::vector<int>& along, double bytes) {
  double most = 0;
  for (const int axis : along) {
    if (prices.mesh.axes[axis].size == 1) continue;
    const Link link = LinkOfAxis(prices.cluster, prices.mesh, axis);
    most = std::max(most, link.latency + bytes / link.bandwidth);
  }
  return most;
}

int Changes(const NdSbp& a, const NdSbp& b) {
  int changes = 0;
  for (size_t i = 0; i < a.size(); ++i) changes += a[i] == b[i] ? 0 : 1;
  return changes;
}

// Dijkstra over nd-SBPs.
class PathSearch {
 public:
  PathSearch(const BoxingPrices& prices, const BoxedTensor& tensor, const NdSbp& from,
             const NdSbp& to)
      : prices_(prices), tensor_(tensor), from_(from), to_(to) {}

  std::vector<BoxingStep> Run() {
    nodes_.push_back({from_, 0, 0, -1, {}, false});
    while (true) {
      const int at = Nearest();
      nodes_[at].done = true;
      if (nodes_[at].sbp == to_) return Unwind(at);
      for (const NdSbp& next : Neighbours(nodes_[at].sbp)) Relax(at, next);
    }
  }

 private:
  struct Node {
    NdSbp sbp;
    double seconds = 0;
    int steps = 0;
    int before = -1;
    BoxingStep step;
    bool done = false;
  };

  int Nearest() const {
    int best = -1;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const Node& node = nodes_[i];
      if (node.done) continue;
      if (best < 0 || std::pair(node.seconds, node.steps) <
                          std::pair(nodes_[best].seconds, nodes_[best].steps)) {
        best = i;
      }
    }
    CHECK_GE(best, 0) << "no boxing from " << ToString(from_) << " to " << ToString(to_);
    return best;
  }

  int Find(const NdSbp& sbp) const {
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (nodes_[i].sbp == sbp) return i;
    }
    return -1;
  }

  // SBPs worth passing through on an axis: nothing becomes partial that does not end so.
  std::vector<Sbp> Options(int axis) const {
    std::vector<Sbp> options = {to_[axis]};
    const auto add = [&options](Sbp sbp) {
      if (std::find(options.begin(), options.end(), sbp) == options.end()) options.push_back(sbp);
    };
    if (prices_.mesh.axes[axis].size == 1 || axis == prices_.mesh.stage_axis()) return options;
    add(B());
    for (int d = 0; d < static_cast<int>(tensor_.dims.size()); ++d) add(S(d));
    return options;
  }

  // What one primitive may lead to, `to_` first: all that differ on one axis; and on several, where
  // none of these is partial.
  std::vector<NdSbp> Neighbours(const NdSbp& at) const {
    std::vector<NdSbp> all = {at};
    for (int axis = 0; axis < static_cast<int>(at.size()); ++axis) {
      const size_t before = all.size();
      for (const Sbp next : Options(axis)) {
        for (size_t i = 0; i < before && !(next == at[axis]); ++i) {
          const bool partial = at[axis].partial() || next.partial();
          if (partial && i > 0) break;
          all.push_back(all[i]);
          all.back()[axis] = next;
        }
      }
    }
    all.erase(all.begin());
    std::stable_sort(all.begin(), all.end(), [&](const NdSbp& a, const NdSbp& b) {
      return std::pair(!(a == to_), Changes(at, a)) < std::pair(!(b == to_), Changes(at, b));
    });
    return all;
  }

  // No part is empty but where an end's are.
  bool LeavesRoom(const NdSbp& sbp) const {
    Dims parts(tensor_.dims.size(), 1);
    bool fresh = false;
    for (size_t a = 0; a < sbp.size(); ++a) {
      if (!sbp[a].split()) continue;
      parts[sbp[a].dim] *= prices_.mesh.axes[a].size;
      fresh = fresh || !(sbp[a] == from_[a] || sbp[a] == to_[a]);
    }
    if (!fresh) return true;
    for (size_t d = 0; d < parts.size(); ++d) {
      if (parts[d] > 1 && parts[d] > tensor_.dims[d]) return false;
    }
    return true;
  }

  void Relax(int at, const NdSbp& next) {
    const double before = nodes_[at].seconds;
    const int found = Find(next);
    if (found >= 0 && nodes_[found].done) return;
    if (goal_ >= 0 && before + FiringSeconds(prices_.cluster) > nodes_[goal_].seconds) return;
    if (found < 0 && !LeavesRoom(next)) return;
    const BoxingStep step = BoxingStepBetween(prices_, tensor_, nodes_[at].sbp, next);
    if (step.kind.empty()) return;
    Node node{next, before + step.seconds, nodes_[at].steps + 1, at, step, false};
    if (found < 0) {
      if (next == to_) goal_ = static_cast<int>(nodes_.size());
      nodes_.push_back(std::move(node));
    } else if (std::pair(node.seconds, node.steps) <
               std::pair(nodes_[found].seconds, nodes_[found].steps)) {
      nodes_[found] = std::move(node);
    }
  }

  std::vector<BoxingStep> Unwind(int at) const {
    std::vector<BoxingStep> steps;
    for (; nodes_[at].before >= 0; at = nodes_[at].before) steps.push_back(nodes_[at].step);
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  const BoxingPrices& prices_;
  const BoxedTensor& tensor_;
  const NdSbp &from_, &to_;
  std::vector<Node> nodes_;
  int goal_ = -1;  // the node of to_, once a way is known
};

}  // namespace

BoxingStep BoxingStepBetween(const BoxingPrices& prices, const BoxedTensor& tensor,
                             const NdSbp& from, const NdSbp& to) {
  const BoxingPrimitive primitive = PrimitiveBetween(prices.mesh, from, to);
  BoxingStep step{primitive.kind, to};
  if (primitive.kind.empty()) return step;
  const int64_t received = MostReceived({prices.mesh, tensor.dims, from, to, primitive});
  const int64_t written = MaxElements(LayoutOf(tensor.dims, to), prices.mesh);
  step.bytes = received * tensor.element_bytes;
  step.seconds =
      FiringSeconds(prices.cluster) +
      ReceiveSeconds(prices, primitive.along, static_cast<double>(step.bytes)) +
      static_cast<double>(written * tensor.element_bytes) / MemoryBandwidth(prices.cluster);
  return step;
}

std::vector<BoxingStep> BoxingPath(const BoxingPrices& prices, const BoxedTensor& tensor,
                                   const NdSbp& from, const NdSbp& to) {
  CHECK_EQ(from.size(), prices.mesh.axes.size());
  CHECK_EQ(to.size(), prices.mesh.axes.size());
  return PathSearch(prices, tensor, from, to).Run();
}

}  // namespace oneflow
