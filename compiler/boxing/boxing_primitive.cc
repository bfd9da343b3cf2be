#include "compiler/boxing/boxing_primitive.h"

#include <glog/logging.h>

#include <algorithm>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

std::vector<int> ChangedAxes(const NdSbp& from, const NdSbp& to) {
  std::vector<int> changed;
  for (int a = 0; a < static_cast<int>(from.size()); ++a) {
    if (!(from[a] == to[a])) changed.push_back(a);
  }
  return changed;
}

bool Has(const NdSbp& sbp, Sbp::Kind kind, int except) {
  for (int a = 0; a < static_cast<int>(sbp.size()); ++a) {
    if (a != except && sbp[a].kind == kind) return true;
  }
  return false;
}

// Whether a later axis splits the dimension that `sbp` splits by `axis`.
bool SplitInside(const Mesh& mesh, const NdSbp& sbp, int axis, Sbp kind) {
  if (!kind.split()) return false;
  for (int b = axis + 1; b < static_cast<int>(sbp.size()); ++b) {
    if (mesh.axes[b].size > 1 && sbp[b] == kind) return true;
  }
  return false;
}

std::string_view KindOnOneAxis(Sbp from, Sbp to) {
  if (from.broadcast()) return to.split() ? "slice" : "zero_fill";
  if (from.split()) {
    if (to.partial()) return "zero_fill";
    return to.split() ? "all_to_all" : "all_gather";
  }
  if (to.partial()) return "";
  return to.split() ? "reduce_scatter" : "all_reduce";
}

BoxingPrimitive OnOneAxis(const NdSbp& from, const NdSbp& to, int axis) {
  const std::string_view kind = KindOnOneAxis(from[axis], to[axis]);
  // Of a maximum of sums the sums are taken first; and the lowest number must not be a term of one.
  const bool maximum = from[axis].kind == Sbp::kPartialMax ||
                       (from[axis].split() && to[axis].kind == Sbp::kPartialMax);
  if (kind.empty() || (maximum && Has(from, Sbp::kPartialSum, axis))) return {};
  if (kind == "slice" || kind == "zero_fill") return {kind, {}};
  return {kind, {axis}};
}

// all_to_all over the changed axes and all that split a dimension which they split.
BoxingPrimitive OnSeveralAxes(const Mesh& mesh, const NdSbp& from, const NdSbp& to,
                              const std::vector<int>& changed) {
  std::vector<int> dims;
  for (const int a : changed) {
    if (from[a].partial() || to[a].partial()) return {};
    for (const Sbp sbp : {from[a], to[a]}) {
      if (sbp.split()) dims.push_back(sbp.dim);
    }
  }
  BoxingPrimitive primitive{"all_to_all", {}};
  for (int a = 0; a < static_cast<int>(from.size()); ++a) {
    if (mesh.axes[a].size == 1 && from[a] == to[a]) continue;
    const bool involved = std::any_of(dims.begin(), dims.end(),
                                      [&](int d) { return from[a] == S(d) || to[a] == S(d); });
    if (involved) primitive.along.push_back(a);
  }
  return primitive;
}

// Where to look for the device that receives most.
std::vector<int> Representatives(int devices, const Dims& dims) {
  std::vector<int> at;
  if (devices <= 16) {
    for (int i = 0; i < devices; ++i) at.push_back(i);
    return at;
  }
  at = {0, devices - 1};
  for (const int64_t d : dims)
    at.push_back(static_cast<int>(d % devices));  // the first smaller part
  std::sort(at.begin(), at.end());
  at.erase(std::unique(at.begin(), at.end()), at.end());
  return at;
}

}  // namespace

BoxingPrimitive PrimitiveBetween(const Mesh& mesh, const NdSbp& from, const NdSbp& to) {
  CHECK_EQ(from.size(), mesh.axes.size());
  CHECK_EQ(to.size(), mesh.axes.size());
  const std::vector<int> changed = ChangedAxes(from, to);
  if (changed.empty()) return {};
  const int axis = changed.front();
  if (changed.size() == 1 && !SplitInside(mesh, from, axis, from[axis]) &&
      !SplitInside(mesh, to, axis, to[axis])) {
    return OnOneAxis(from, to, axis);
  }
  return OnSeveralAxes(mesh, from, to, changed);
}

int64_t ReceivedAt(const BoxingMove& move, const Coordinate& c) {
  if (move.primitive.along.empty()) return 0;
  const Slice mine = LocalSlice(MakeLayout(move.dims, move.to), move.mesh, c);
  const int axis = move.primitive.along.front();
  if (move.from[axis].partial()) return (move.mesh.axes[axis].size - 1) * mine.elements();
  const Slice held = LocalSlice(MakeLayout(move.dims, move.from), move.mesh, c);
  return mine.elements() - Intersect(mine, held).elements();
}

int64_t MostReceived(const BoxingMove& move) {
  std::vector<Coordinate> at = {Coordinate(move.mesh.axes.size(), 0)};
  for (const int axis : move.primitive.along) {
    const size_t before = at.size();
    for (const int i : Representatives(move.mesh.axes[axis].size, move.dims)) {
      for (size_t j = 0; i > 0 && j < before; ++j) {
        at.push_back(at[j]);
        at.back()[axis] = i;
      }
    }
  }
  int64_t most = 0;
  for (const Coordinate& c : at) most = std::max(most, ReceivedAt(move, c));
  return most;
}

}  // namespace oneflow
