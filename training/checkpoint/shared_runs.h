// The elements that two slices of one logical tensor share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {

// Row-major index, in slice `s`, of the logical element at shared.begin + index.
int64_t IndexInSlice(const Slice& s, const Slice& shared, const Dims& index);

// Calls fn(source, destination, count) for each run of elements that two slices share: `count`
// elements, contiguous in both, begin at row-major index `source` in `from` and `destination` in
// `to`. Indices in `from` ascend. Returns the number of elements that they share.
template <typename Fn>
int64_t ForShared(const Slice& from, const Slice& to, Fn fn) {
  const Slice shared = Intersect(from, to);
  const int64_t elements = shared.elements();
  if (elements == 0) return 0;
  // A run covers the trailing dimensions that both slices hold in full, and one more.
  int outer = static_cast<int>(shared.size.size());
  int64_t run = 1;
  bool dense = true;
  while (outer > 0 && dense) {
    --outer;
    run *= shared.size[outer];
    dense = shared.size[outer] == from.size[outer] && shared.size[outer] == to.size[outer];
  }
  Dims index(shared.size.size(), 0);
  for (int64_t done = 0; done < elements; done += run) {
    fn(IndexInSlice(from, shared, index), IndexInSlice(to, shared, index), run);
    for (int d = outer - 1; d >= 0; --d) {
      if (++index[d] < shared.size[d]) break;
      index[d] = 0;
    }
  }
  return elements;
}

}  // namespace oneflow
