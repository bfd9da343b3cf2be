#include "planning/search/result.h"

#include <algorithm>
#include <limits>

#include "glog/logging.h"

namespace oneflow {

double FindGap(const SearchResult& result) {
  CHECK(!result.found.empty());
  if (result.bound_seconds <= 0) return std::numeric_limits<double>::infinity();
  return std::max(0.0, result.found[0].step_seconds / result.bound_seconds - 1);
}

}  // namespace oneflow
