// Layout: the box of a logical tensor that a device holds. Pure geometry, and all that the runtime
// knows of SBP.
//
// Example: dims {4,5}, dim 0 split by axis "data" of size 2: coordinate data=1 holds rows [2,4).
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/sbp.h"
#include "oneflow_core/tensor/shape.h"

namespace oneflow {

// Part `index` of n elements split into p parts: the first n mod p parts get one more. No other
// code knows ragged offsets.
struct Range {
  int64_t begin = 0, size = 0;
  bool operator==(const Range&) const = default;
};
Range EvenPart(int64_t n, int p, int index);

struct Slice {
  Dims begin, size;  // one for each dimension
  int64_t elements() const { return Product(size); }
  bool operator==(const Slice&) const = default;
};
Slice Intersect(const Slice& a, const Slice& b);  // sizes are 0 where they do not meet

// Row-major index, in a tensor of sizes `dims`, of element `element` of a slice (row-major, too).
int64_t IndexInTensor(const Dims& dims, const Slice& slice, int64_t element);
// The number of consecutive elements of a slice that are consecutive in the tensor, too: a row, or
// more if entire rows are held.
int64_t RunLength(const Dims& dims, const Slice& slice);
// Calls fn(element, index, count) for each run within elements [begin, end) of the slice. `count`
// elements from `element` on are consecutive in the tensor, from `index` on.
template <typename Fn>
void ForRuns(const Dims& dims, const Slice& slice, int64_t begin, int64_t end, Fn fn) {
  const int64_t run = RunLength(dims, slice);
  for (int64_t at = begin; at < end;) {
    const int64_t count = std::min(run - at % run, end - at);
    fn(at, IndexInTensor(dims, slice, at), count);
    at += count;
  }
}

struct Layout {
  struct Split {
    int dim = 0, axis = 0;
    auto operator<=>(const Split&) const = default;
  };
  Dims dims;                  // logical sizes
  std::vector<Split> splits;  // the first is outermost
  auto operator<=>(const Layout&) const = default;
};

Layout MakeLayout(const Dims& dims, const NdSbp& sbp);  // P and B split nothing
Slice LocalSlice(const Layout& layout, const Mesh& mesh, const Coordinate& c);
Slice LargestSlice(const Layout& layout, const Mesh& mesh);
int64_t MaxElements(const Layout& layout, const Mesh& mesh);  // of the largest part

}  // namespace oneflow
