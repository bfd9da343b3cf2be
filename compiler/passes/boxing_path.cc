#include "compiler/passes/boxing_path.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace oneflow {

std::string_view BoxingKind(Sbp from, Sbp to) {
  if (to.kind == Sbp::kPartialMax || from == to) return "";
  if (from.broadcast()) return to.split() ? "slice" : "zero_fill";
  if (from.split()) {
    if (to.broadcast()) return "all_gather";
    return to.split() ? "all_to_all" : "";
  }
  if (to.partial()) return "";
  return to.split() ? "reduce_scatter" : "all_reduce";
}

double TransitionPrice(Sbp from, Sbp to, double bytes, int devices) {
  if (from == to || devices == 1) return 0;
  if (from.split() && to.kind == Sbp::kPartialSum) {
    return TransitionPrice(from, B(), bytes, devices) + TransitionPrice(B(), to, bytes, devices);
  }
  if (BoxingKind(from, to).empty()) return kImpossible;
  const double others = devices - 1;
  double moved = 0;
  if (from.partial()) moved = to.broadcast() ? 2 * others * bytes : 1.1 * others * bytes;
  if (from.split()) moved = to.broadcast() ? 1.1 * others * bytes : others * bytes / devices;
  // Nothing crosses a link, but every device reads or writes the whole: a hundredth of a transfer.
  if (from.broadcast()) moved = 0.01 * devices * bytes;
  return moved + kBoxingLatency;
}

namespace {

using Key = std::vector<int>;

Key KeyOf(const NdSbp& sbp) {
  Key key;
  for (Sbp s : sbp) key.push_back(s.kind * 256 + (s.split() ? s.dim : 0));
  return key;
}

class PathSearch {
 public:
  PathSearch(const Mesh& mesh, const Dims& dims, int64_t bytes, const NdSbp& from, const NdSbp& to)
      : mesh_(mesh), dims_(dims), bytes_(bytes), from_(from), to_(to) {}

  // Dijkstra; of equal ways the one found first, in the order of axes and options.
  std::vector<BoxingStep> Run() {
    nodes_[KeyOf(from_)] = {from_, 0, {}, -1, false};
    while (true) {
      Node* best = nullptr;
      for (auto& [key, node] : nodes_) {
        if (!node.done && (best == nullptr || node.price < best->price)) best = &node;
      }
      CHECK(best != nullptr) << "no boxing from " << ToString(from_) << " to " << ToString(to_);
      best->done = true;
      if (best->sbp == to_) return Unwind();
      for (int axis = 0; axis < static_cast<int>(from_.size()); ++axis) {
        for (Sbp next : Options(axis)) Relax(*best, axis, next);
      }
    }
  }

 private:
  struct Node {
    NdSbp sbp;
    double price = 0;
    Key before;
    int axis = -1;
    bool done = false;
  };

  // SBPs worth passing through on an axis.
  std::vector<Sbp> Options(int axis) const {
    if (mesh_.axes[axis].size == 1) return {to_[axis]};
    std::vector<Sbp> options = {to_[axis], B()};
    if (from_[axis].split()) options.push_back(from_[axis]);
    if (from_[axis].partial()) {
      for (int d = 0; d < static_cast<int>(dims_.size()); ++d) options.push_back(S(d));
    }
    return options;
  }

  // Groups along the axes other than `axis`, each of which moves its own copy; and how many parts
  // those axes cut the tensor in.
  std::pair<double, double> Others(const NdSbp& sbp, int axis) const {
    double copies = 1, parts = 1;
    for (int b = 0; b < static_cast<int>(sbp.size()); ++b) {
      if (b == axis || b == mesh_.stage_axis()) continue;
      (sbp[b].split() ? parts : copies) *= mesh_.axes[b].size;
    }
    return {copies, parts};
  }

  // Size of dimension d of the piece that the axes other than `axis` leave.
  int64_t PieceSize(const NdSbp& sbp, int axis, int d) const {
    int64_t size = dims_[d];
    for (int b = 0; b < static_cast<int>(sbp.size()); ++b) {
      if (b != axis && sbp[b] == S(d)) size /= mesh_.axes[b].size;
    }
    return size;
  }

  bool CutsInOrder(const NdSbp& sbp, int axis, Sbp changed) const {
    if (!changed.split()) return true;
    for (int b = axis + 1; b < static_cast<int>(sbp.size()); ++b) {
      if (mesh_.axes[b].size > 1 && sbp[b] == changed) return false;
    }
    return true;
  }

  bool Allowed(const NdSbp& at, int axis, Sbp next) const {
    const Sbp now = at[axis];
    if (mesh_.axes[axis].size == 1) return true;
    if (BoxingKind(now, next).empty()) return false;
    if (next.partial() && next != to_[axis]) return false;
    if (!CutsInOrder(at, axis, now) || !CutsInOrder(at, axis, next)) return false;
    const int p = mesh_.axes[axis].size;
    if (next.split() && next != to_[axis] && PieceSize(at, axis, next.dim) < p) return false;
    if (!now.partial() || !next.broadcast()) return true;
    if (static_cast<double>(bytes_) / Others(at, axis).second <= kAllReduceBytes) return true;
    for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
      if (CutsInOrder(at, axis, S(d)) && PieceSize(at, axis, d) >= p) return false;
    }
    return true;
  }

  void Relax(const Node& at, int axis, Sbp next) {
    if (at.sbp[axis] == next || !Allowed(at.sbp, axis, next)) return;
    const double price =
        at.price + Others(at.sbp, axis).first * TransitionPrice(at.sbp[axis], next,
                                                                static_cast<double>(bytes_),
                                                                mesh_.axes[axis].size);
    NdSbp sbp = at.sbp;
    sbp[axis] = next;
    Node& node = nodes_[KeyOf(sbp)];
    if (!node.sbp.empty() && node.price <= price) return;
    node = {std::move(sbp), price, KeyOf(at.sbp), axis, false};
  }

  std::vector<BoxingStep> Unwind() const {
    std::vector<BoxingStep> steps;
    for (const Node* node = &nodes_.at(KeyOf(to_)); node->axis >= 0;
         node = &nodes_.at(node->before)) {
      steps.push_back({node->axis, node->sbp});
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

  const Mesh& mesh_;
  const Dims& dims_;
  const int64_t bytes_;
  const NdSbp &from_, &to_;
  std::map<Key, Node> nodes_;
};

}  // namespace

std::vector<BoxingStep> BoxingPath(const Mesh& mesh, const Dims& dims, int64_t bytes,
                                   const NdSbp& from, const NdSbp& to) {
  CHECK_EQ(from.size(), mesh.axes.size());
  CHECK_EQ(to.size(), mesh.axes.size());
  return PathSearch(mesh, dims, bytes, from, to).Run();
}

}  // namespace oneflow
