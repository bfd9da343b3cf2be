#include "compiler/boxing/boxing_primitive.h"

#include <glog/logging.h>

#include <algorithm>

#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"

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

BoxingPrimitive OnOneAxis(const NdSbp& from, const NdSbp& to, int axis) {
  const Primitive* row = FindPrimitive(from[axis], to[axis]);
  // Of a maximum of sums the sums are taken first; and the lowest number must not be a term of one.
  const bool maximum = from[axis].kind == Sbp::kPartialMax ||
                       (from[axis].split() && to[axis].kind == Sbp::kPartialMax);
  if (row == nullptr || (maximum && Has(from, Sbp::kPartialSum, axis))) return {};
  if (row->members == Members::kAlone) return {row->kind, {}};
  return {row->kind, {axis}};
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

// Of a dimension: what a device gets of it, and has of that, by its index on the axes along which
// the dimension is split. `strides`: of these indices, by axis of `along`; 0 where it is not split.
struct DimensionParts {
  struct Part {
    int64_t mine = 0, has = 0;
  };
  std::vector<size_t> strides;
  std::vector<Part> parts;
  int64_t largest = 0;
};

Range FindRange(const BoxingMove& move, const NdSbp& sbp, int d, const Coordinate& c) {
  Range range{0, move.dims[d]};
  for (size_t a = 0; a < sbp.size(); ++a) {
    if (!(sbp[a] == S(d))) continue;
    const Range part = EvenPart(range.size, move.mesh.axes[a].size, c[a]);
    range = {range.begin + part.begin, part.size};
  }
  return range;
}

// `at`: the indices to look at, by axis of `along`.
DimensionParts SplitDimension(const BoxingMove& move, int d,
                              const std::vector<std::vector<int>>& at) {
  const std::vector<int>& along = move.primitive.along;
  DimensionParts result;
  size_t count = 1;
  for (size_t a = 0; a < along.size(); ++a) {
    const bool splits = move.from[along[a]] == S(d) || move.to[along[a]] == S(d);
    result.strides.push_back(splits ? count : 0);
    if (splits) count *= at[a].size();
  }
  Coordinate c(move.mesh.axes.size(), 0);
  for (size_t index = 0; index < count; ++index) {
    for (size_t a = 0; a < along.size(); ++a) {
      if (result.strides[a] > 0) c[along[a]] = at[a][index / result.strides[a] % at[a].size()];
    }
    const Range mine = FindRange(move, move.to, d, c), held = FindRange(move, move.from, d, c);
    const int64_t begin = std::max(mine.begin, held.begin);
    const int64_t end = std::min(mine.begin + mine.size, held.begin + held.size);
    result.parts.push_back({mine.size, std::max<int64_t>(0, end - begin)});
    result.largest = std::max(result.largest, mine.size);
  }
  return result;
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
  const std::vector<int>& along = move.primitive.along;
  if (along.empty()) return 0;
  if (const int axis = along.front(); move.from[axis].partial()) {
    return (move.mesh.axes[axis].size - 1) * MaxElements(MakeLayout(move.dims, move.to), move.mesh);
  }
  std::vector<std::vector<int>> at;  // by axis of `along`: where to look
  at.reserve(along.size());
  for (const int axis : along) {
    at.push_back(Representatives(move.mesh.axes[axis].size, move.dims));
  }
  std::vector<DimensionParts> dims;
  dims.reserve(move.dims.size());
  int64_t ceiling = 1;  // no device takes more
  for (int d = 0; d < static_cast<int>(move.dims.size()); ++d) {
    dims.push_back(SplitDimension(move, d, at));
    ceiling *= dims.back().largest;
  }
  // All combinations, as an odometer counts them.
  std::vector<size_t> digits(along.size(), 0);
  int64_t most = 0;
  while (true) {
    int64_t mine = 1, has = 1;
    for (const DimensionParts& dim : dims) {
      size_t index = 0;
      for (size_t a = 0; a < digits.size(); ++a) index += dim.strides[a] * digits[a];
      mine *= dim.parts[index].mine;
      has *= dim.parts[index].has;
    }
    most = std::max(most, mine - has);
    size_t a = 0;
    while (a < digits.size() && ++digits[a] == at[a].size()) digits[a++] = 0;
    if (a == digits.size() || most == ceiling) return most;
  }
}

}  // namespace oneflow
