#include "compiler/boxing/boxing_path.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();
// Sums in another order may be a rounding apart.
constexpr double kRounding = 1 + 1e-12;

double WrittenBytes(const Mesh& mesh, const BoxedTensor& tensor, const NdSbp& to) {
  const int64_t written = MaxElements(MakeLayout(tensor.dims, to), mesh);
  return static_cast<double>(written * tensor.element_bytes);
}

bool AnyPartial(const NdSbp& sbp) {
  return std::any_of(sbp.begin(), sbp.end(), [](Sbp s) { return s.partial(); });
}

bool BecomesPartial(const NdSbp& from, const NdSbp& to) {
  for (size_t a = 0; a < to.size(); ++a) {
    if (to[a].partial() && !(from[a] == to[a])) return true;
  }
  return false;
}

// A* over nd-SBPs; LeastFrom is the lower bound. A node that cannot be on a shorter path than a
// known one is left out.
class PathSearch {
 public:
  // most_axes: axes that one step may change. most_seconds: longer paths are not searched for.
  PathSearch(const BoxingCosts& costs, const BoxedTensor& tensor, const NdSbp& from,
             const NdSbp& to, int most_axes, double most_seconds)
      : costs_(costs),
        tensor_(tensor),
        from_(from),
        to_(to),
        most_axes_(most_axes),
        most_seconds_(most_seconds) {
    const Dims at_first = CountParts(from), at_last = CountParts(to);
    for (size_t d = 0; d < tensor.dims.size(); ++d) {
      most_parts_.push_back(std::max({tensor.dims[d], at_first[d], at_last[d]}));
    }
    const Coordinate first(costs.mesh.axes.size(), 0);
    Coordinate last;
    for (const Mesh::Axis& axis : costs.mesh.axes) last.push_back(axis.size - 1);
    if (costs.cluster.device().kind() != proto::Device::CPU) {
      over_fastest_ = static_cast<double>(tensor.element_bytes) / FastestBandwidth(costs.cluster);
    }
    corners_ = {first, last};
    needed_ = FindHeld(to);
  }

  // Empty if there is no path.
  std::optional<std::vector<BoxingStep>> Run() {
    nodes_[Find(from_)].seconds = 0;
    while (true) {
      const int at = Nearest();
      if (at < 0) return std::nullopt;
      nodes_[at].done = true;
      if (nodes_[at].sbp == to_) return Unwind(at);
      for (const NdSbp& next : Neighbours(nodes_[at].sbp)) Relax(at, next);
    }
  }

 private:
  // What the first and the last device hold.
  using Held = std::array<Slice, 2>;
  struct Node {
    NdSbp sbp;
    Held held;
    double last = 0, rest = 0;  // LeastTo it; LeastFrom it
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
  int Find(const NdSbp& sbp) {
    std::string key;
    for (const Sbp sbp : sbp) key += {static_cast<char>(sbp.kind), static_cast<char>(sbp.dim)};
    const auto [it, fresh] = known_.try_emplace(std::move(key), static_cast<int>(nodes_.size()));
    if (fresh) {
      Held held = FindHeld(sbp);
      const double rest = LeastFrom(sbp, held);
      nodes_.push_back({sbp, std::move(held), LeastTo(sbp), rest});
    }
    return it->second;
  }

  Held FindHeld(const NdSbp& sbp) const {
    const Layout layout = MakeLayout(tensor_.dims, sbp);
    return {LocalSlice(layout, costs_.mesh, corners_[0]),
            LocalSlice(layout, costs_.mesh, corners_[1])};
  }

  // Elements that one of these devices lacks.
  static int64_t CountLacking(const Held& has, const Held& wants) {
    int64_t most = 0;
    for (size_t i = 0; i < wants.size(); ++i) {
      int64_t both = 1;
      for (size_t d = 0; d < wants[i].size.size(); ++d) both *= CountShared(has[i], wants[i], d);
      most = std::max(most, wants[i].elements() - both);
    }
    return most;
  }

  static int64_t CountShared(const Slice& a, const Slice& b, size_t d) {
    const int64_t begin = std::max(a.begin[d], b.begin[d]);
    const int64_t end = std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]);
    return std::max<int64_t>(0, end - begin);
  }

  bool IsSum(const NdSbp& sbp) const {
    for (size_t a = 0; a < sbp.size(); ++a) {
      if (sbp[a].partial() && costs_.mesh.axes[a].size > 1) return true;
    }
    return false;
  }

  // A lower bound of the seconds of any step to `sbp`.
  double LeastTo(const NdSbp& sbp) const {
    return LeastBoxingSeconds(WrittenBytes(costs_.mesh, tensor_, sbp), costs_.cluster,
                              *costs_.kernels);
  }

  // A lower bound of the seconds from here to `to_`: the last step, and on accelerators the bytes
  // that a device lacks, over the fastest link. A device lacks all of a sum still to be taken.
  double LeastFrom(const NdSbp& sbp, const Held& held) const {
    if (sbp == to_) return 0;
    const double last = LeastTo(to_);
    if (AnyPartial(to_) || over_fastest_ == 0) return last;
    const int64_t lacking = IsSum(sbp) ? needed_[0].elements() : CountLacking(held, needed_);
    return last + static_cast<double>(lacking) * over_fastest_;
  }

  // Lower bounds of a step: by what two devices lack, over the fastest link, and over those of the
  // primitive. Who sums receives no less, its own part of each other device.
  double BoundStep(const Node& from, const Node& to) const {
    // What becomes partial is filled with zeros.
    if (BecomesPartial(from.sbp, to.sbp)) return to.last;
    return to.last + static_cast<double>(CountLacking(from.held, to.held)) * over_fastest_;
  }
  double BoundStep(const BoxingPrimitive& primitive, const Node& from, const Node& to) {
    if (over_fastest_ == 0 || primitive.along.empty()) return to.last;
    const auto [links, fresh] = links_.try_emplace(primitive.along);
    if (fresh) links->second = LinksOfGroup(costs_.cluster, costs_.mesh, primitive.along);
    const int64_t lacking = CountLacking(from.held, to.held);
    return to.last + ExchangeSeconds(primitive.kind,
                                     static_cast<double>(lacking * tensor_.element_bytes),
                                     links->second);
  }

  // SBPs worth passing through on an axis: nothing becomes partial that does not end so.
  std::vector<Sbp> Options(int axis) const {
    std::vector<Sbp> options = {to_[axis]};
    const auto add = [&options](Sbp sbp) {
      if (std::find(options.begin(), options.end(), sbp) == options.end()) options.push_back(sbp);
    };
    const Mesh& mesh = costs_.mesh;
    if (axis == mesh.stage_axis()) return options;
    const bool one = mesh.axes[axis].size == 1;
    // A part of a sum is none of a maximum, on one device either: what is between them is B.
    if (one && !from_[axis].partial() && !to_[axis].partial()) return options;
    add(B());
    if (one) return options;
    for (int d = 0; d < static_cast<int>(tensor_.dims.size()); ++d) add(S(d));
    return options;
  }

  // What one primitive may lead to, `to_` first: all that differ on one axis; and on several, where
  // none of these is partial.
  std::vector<NdSbp> Neighbours(const NdSbp& at) const {
    std::vector<NdSbp> all = {at};
    std::vector<int> changes = {0};  // axes that differ from `at`
    for (int axis = 0; axis < static_cast<int>(at.size()); ++axis) {
      const size_t before = all.size();
      for (const Sbp next : Options(axis)) {
        for (size_t i = 0; i < before && !(next == at[axis]); ++i) {
          const bool partial = at[axis].partial() || next.partial();
          if (i > 0 && (partial || changes[i] == most_axes_)) break;
          all.push_back(all[i]);
          all.back()[axis] = next;
          changes.push_back(changes[i] + 1);
        }
      }
    }
    std::vector<NdSbp> ordered;
    if (std::find(all.begin() + 1, all.end(), to_) != all.end()) ordered.push_back(to_);
    for (int n = 1; n <= static_cast<int>(at.size()); ++n) {
      for (size_t i = 1; i < all.size(); ++i) {
        if (changes[i] == n && all[i] != to_) ordered.push_back(std::move(all[i]));
      }
    }
    return ordered;
  }

  // Into how many parts each dimension is split.
  Dims CountParts(const NdSbp& sbp) const {
    Dims parts(tensor_.dims.size(), 1);
    for (size_t a = 0; a < sbp.size(); ++a) {
      if (sbp[a].split()) parts[sbp[a].dim] *= costs_.mesh.axes[a].size;
    }
    return parts;
  }

  // No part is empty but where an end's are.
  bool LeavesRoom(const NdSbp& sbp) const {
    const Dims parts = CountParts(sbp);
    for (size_t d = 0; d < parts.size(); ++d) {
      if (parts[d] > most_parts_[d]) return false;
    }
    return true;
  }

  void Relax(int at, const NdSbp& next) {
    const int found = Find(next);
    const Node& now = nodes_[at];
    if (nodes_[found].done) return;
    // What a step receives costs the most to find out, and less tells already that most are no use:
    // nothing of it, then what two devices lack over the fastest link, then over those of the step.
    const auto is_too_much = [&](double step) {
      const double least = now.seconds + step;
      return least + nodes_[found].rest > kRounding * most_seconds_ ||
             least > kRounding * nodes_[found].seconds;
    };
    if (is_too_much(nodes_[found].last)) return;
    if (nodes_[found].seconds == kNoWay && !LeavesRoom(next)) return;
    if (is_too_much(BoundStep(now, nodes_[found]))) return;
    const BoxingPrimitive primitive = PrimitiveBetween(costs_.mesh, now.sbp, next);
    if (primitive.kind.empty()) return;
    if (is_too_much(BoundStep(primitive, now, nodes_[found]))) return;
    const BoxingStep step = BoxingStepBetween(costs_, tensor_, now.sbp, next);
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

  const BoxingCosts& costs_;
  const BoxedTensor& tensor_;
  const NdSbp &from_, &to_;
  const int most_axes_;
  double over_fastest_ = 0;                       // seconds of an element, on accelerators
  Dims most_parts_;                               // by dimension
  double most_seconds_;                           // of the path
  std::array<Coordinate, 2> corners_;             // the first and the last device
  Held needed_;                                   // what they hold of `to_`
  std::map<std::vector<int>, GroupLinks> links_;  // by axes
  std::unordered_map<std::string, int> known_;    // nodes, by layout
  std::vector<Node> nodes_;
};

}  // namespace

Mesh OneStage(Mesh mesh) {
  if (const int axis = mesh.stage_axis(); axis >= 0) mesh.axes[axis].size = 1;
  return mesh;
}

BoxedTensor ToBoxed(const Tensor& tensor) {
  return {tensor.shape.dims, static_cast<int64_t>(ElementBytes(tensor.dtype)), tensor.dtype};
}

BoxingWork WorkBetween(const Mesh& mesh, const BoxedTensor& tensor, const NdSbp& from,
                       const NdSbp& to) {
  const BoxingPrimitive primitive = PrimitiveBetween(mesh, from, to);
  CHECK(!primitive.kind.empty()) << "no primitive";
  BoxingWork work{.primitive = primitive.kind, .axes = primitive.along, .dtype = tensor.dtype};
  for (const int axis : primitive.along) {
    work.members *= mesh.axes[axis].size;
    work.sums = work.sums || from[axis].partial();
  }
  work.written = WrittenBytes(mesh, tensor, to);
  work.received = BytesOverLinks(
      work, static_cast<double>(MostReceived({mesh, tensor.dims, from, to, primitive}) *
                                tensor.element_bytes));
  return work;
}

BoxingWork TransferWork(const Mesh& mesh, const BoxedTensor& tensor, const NdSbp& sbp, int from,
                        int to) {
  const double bytes = WrittenBytes(mesh, tensor, sbp);
  return {.primitive = "transfer",
          .from = from,
          .to = to,
          .dtype = tensor.dtype,
          .written = bytes,
          .received = bytes};
}

BoxingWork MakeWork(const Graph& graph, const Op& op) {
  const Tensor &from = graph.tensors[op.inputs[0]], &to = graph.tensors[op.outputs[0]];
  if (!IsTransfer(op.kind)) return WorkBetween(graph.mesh, ToBoxed(from), from.sbp, to.sbp);
  return TransferWork(graph.mesh, ToBoxed(to), to.sbp, graph.Producer(op.inputs[0]).stage,
                      op.stage);
}

double BytesTaken(const BoxingWork& work) {
  return work.sums ? (work.members - 1) * work.written : work.received;
}

double BoxingSeconds(const BoxingCosts& costs, const BoxingWork& work) {
  if (costs.kernels != nullptr) {
    return BoxingTime(work, costs.mesh, costs.cluster, *costs.kernels).both();
  }
  const KernelCost kernels(costs.cluster.device());
  return BoxingTime(work, costs.mesh, costs.cluster, kernels).both();
}

BoxingStep BoxingStepBetween(const BoxingCosts& costs, const BoxedTensor& tensor, const NdSbp& from,
                             const NdSbp& to) {
  BoxingStep step{"", to};
  const BoxingPrimitive primitive = PrimitiveBetween(costs.mesh, from, to);
  if (primitive.kind.empty()) return step;
  step.kind = primitive.kind;
  const BoxingWork work = WorkBetween(costs.mesh, tensor, from, to);
  step.bytes = std::llround(BytesTaken(work));
  step.seconds = BoxingSeconds(costs, work);
  return step;
}

std::vector<BoxingStep> BoxingPath(const BoxingCosts& costs, const BoxedTensor& tensor,
                                   const NdSbp& from, const NdSbp& to) {
  if (costs.kernels == nullptr) {
    const KernelCost kernels(costs.cluster.device());
    return BoxingPath({costs.cluster, costs.mesh, &kernels}, tensor, from, to);
  }
  CHECK_EQ(from.size(), costs.mesh.axes.size());
  CHECK_EQ(to.size(), costs.mesh.axes.size());
  // A path that changes one axis at a time is found quickly; its time bounds the search among all.
  const auto one = PathSearch(costs, tensor, from, to, 1, kNoWay).Run();
  double seconds = one ? 0 : kNoWay;
  for (size_t i = 0; one && i < one->size(); ++i) seconds += (*one)[i].seconds;
  auto best = PathSearch(costs, tensor, from, to, std::numeric_limits<int>::max(), seconds).Run();
  CHECK(best.has_value()) << "no boxing from " << ToString(from) << " to " << ToString(to);
  return *std::move(best);
}

}  // namespace oneflow
