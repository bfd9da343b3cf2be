#include "planning/search/result.h"

#include <algorithm>
#include <limits>

namespace oneflow {

double FindGap(const SearchResult& result) {
  if (!result.complete || result.bound_seconds <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  return std::max(0.0, result.found[0].step_seconds / result.bound_seconds - 1);
}

double FindEstimatedGap(const SearchResult& result) {
  if (result.least_estimate <= 0) return 0;
  return std::max(0.0, result.found[0].step_seconds / result.least_estimate - 1);
}

}  // namespace oneflow
