// Layout: which box of a logical tensor a device holds. Pure geometry: all that the
// runtime knows of SBP.
//
// Example: dims {4,5}, cut dim 0 by axis "data" of size 2: coordinate data=1 holds rows [2,4).
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow {

// Part `index` of n elements cut in p parts: the first n mod p parts get one more. The one place
// that knows ragged offsets.
struct Range {
  int64_t begin = 0, size = 0;
  bool operator==(const Range&) const = default;
};
Range PartOf(int64_t n, int p, int index);

struct Slice {
  Dims begin, size;  // one for each dimension
  int64_t elements() const { return Product(size); }
  bool operator==(const Slice&) const = default;
};
Slice Intersect(const Slice& a, const Slice& b);  // sizes are 0 where they do not meet

struct Layout {
  struct Cut {
    int dim = 0, axis = 0;
    auto operator<=>(const Cut&) const = default;
  };
  Dims dims;              // logical sizes
  std::vector<Cut> cuts;  // the first is outermost
  auto operator<=>(const Layout&) const = default;
};

Layout LayoutOf(const Dims& dims, const NdSbp& sbp);  // P and B cut nothing
Slice SliceOf(const Layout& layout, const Mesh& mesh, const Coordinate& c);
int64_t MaxElements(const Layout& layout, const Mesh& mesh);  // of the largest part

}  // namespace oneflow
