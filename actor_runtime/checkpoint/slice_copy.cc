#include "actor_runtime/checkpoint/slice_copy.h"

#include <cstring>

namespace oneflow {
namespace {

// Row-major index, in slice `s`, of the logical element at shared.begin + index.
int64_t IndexIn(const Slice& s, const Slice& shared, const Dims& index) {
  int64_t at = 0;
  for (size_t d = 0; d < s.size.size(); ++d) {
    at = at * s.size[d] + shared.begin[d] - s.begin[d] + index[d];
  }
  return at;
}

}  // namespace

int64_t CopyShared(const Slice& from, const std::byte* source, const Slice& to,
                   std::byte* destination, size_t element_bytes) {
  const Slice shared = Intersect(from, to);
  const int64_t elements = shared.elements();
  if (elements == 0) return 0;
  // A run is contiguous on both sides: the trailing dimensions that both hold in full, and one
  // more.
  int outer = static_cast<int>(shared.size.size());
  int64_t run = 1;
  bool whole = true;
  while (outer > 0 && whole) {
    --outer;
    run *= shared.size[outer];
    whole = shared.size[outer] == from.size[outer] && shared.size[outer] == to.size[outer];
  }
  Dims index(shared.size.size(), 0);
  for (int64_t done = 0; done < elements; done += run) {
    std::memcpy(destination + IndexIn(to, shared, index) * element_bytes,
                source + IndexIn(from, shared, index) * element_bytes, run * element_bytes);
    for (int d = outer - 1; d >= 0; --d) {
      if (++index[d] < shared.size[d]) break;
      index[d] = 0;
    }
  }
  return elements;
}

}  // namespace oneflow
