#include "training/checkpoint/shared_runs.h"

namespace oneflow {

int64_t IndexInSlice(const Slice& s, const Slice& shared, const Dims& index) {
  int64_t at = 0;
  for (size_t d = 0; d < s.size.size(); ++d) {
    at = at * s.size[d] + shared.begin[d] - s.begin[d] + index[d];
  }
  return at;
}

}  // namespace oneflow
