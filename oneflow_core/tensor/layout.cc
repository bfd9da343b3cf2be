#include "oneflow_core/tensor/layout.h"

#include <glog/logging.h>

namespace oneflow {

Range EvenPart(int64_t n, int p, int index) {
  DCHECK(p > 0 && index >= 0 && index < p) << "part " << index << " of " << p;
  const int64_t base = n / p, larger = n % p;
  return {index * base + std::min<int64_t>(index, larger), base + (index < larger ? 1 : 0)};
}

Slice Intersect(const Slice& a, const Slice& b) {
  CHECK_EQ(a.begin.size(), b.begin.size());
  const size_t rank = a.begin.size();
  Slice both{Dims(rank), Dims(rank)};
  for (size_t i = 0; i < rank; ++i) {
    const int64_t begin = std::max(a.begin[i], b.begin[i]);
    const int64_t end = std::min(a.begin[i] + a.size[i], b.begin[i] + b.size[i]);
    both.begin[i] = begin;
    both.size[i] = std::max<int64_t>(0, end - begin);
  }
  return both;
}

int64_t IndexInTensor(const Dims& dims, const Slice& slice, int64_t element) {
  int64_t index = 0, stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    index += (slice.begin[d] + element % slice.size[d]) * stride;
    element /= slice.size[d];
    stride *= dims[d];
  }
  return index;
}

int64_t RunLength(const Dims& dims, const Slice& slice) {
  int64_t run = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    run *= slice.size[d];
    if (slice.size[d] != dims[d]) break;
  }
  return run;
}

Layout MakeLayout(const Dims& dims, const NdSbp& sbp) {
  Layout layout{dims, {}};
  for (size_t axis = 0; axis < sbp.size(); ++axis) {
    if (!sbp[axis].split()) continue;
    CHECK(sbp[axis].dim >= 0 && sbp[axis].dim < static_cast<int>(dims.size()))
        << ToString(sbp) << " of a tensor " << ToString(dims);
    layout.splits.push_back({sbp[axis].dim, static_cast<int>(axis)});
  }
  return layout;
}

Slice LocalSlice(const Layout& layout, const Mesh& mesh, const Coordinate& c) {
  Slice slice{Dims(layout.dims.size(), 0), layout.dims};
  for (const Layout::Split& split : layout.splits) {
    const Range part = EvenPart(slice.size[split.dim], mesh.axes[split.axis].size, c[split.axis]);
    slice.begin[split.dim] += part.begin;
    slice.size[split.dim] = part.size;
  }
  return slice;
}

Slice LargestSlice(const Layout& layout, const Mesh& mesh) {
  // Part 0 of a split is never smaller than another, so the largest piece is at the origin.
  return LocalSlice(layout, mesh, Coordinate(mesh.axes.size(), 0));
}

int64_t MaxElements(const Layout& layout, const Mesh& mesh) {
  return LargestSlice(layout, mesh).elements();
}

}  // namespace oneflow
