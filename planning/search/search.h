// The best plan for a model, a cluster and a memory.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "planning/search/result.h"
#include "planning/search/space.h"

namespace oneflow {

struct SearchProgress {
  SearchCounts counts;
  double seconds = 0;
  std::optional<FoundPlan> best;
  double bound_seconds = 0;
};

struct SearchOptions {
  double budget_seconds = 60;
  int threads = 1;
  int top = 10;            // plans to find
  bool first_fit = false;  // ends with the first plan, which need not be the fastest
  // May be null; called about once a second, and whenever the best changes.
  std::function<void(const SearchProgress&)> observe;
};

// At most `top` plans of the space, the fastest first. That nothing fits is no error: then
// `found` is empty, and `nearest` says what is nearest to fitting.
absl::StatusOr<SearchResult> Search(const SearchSpec& spec, const SearchOptions& options);

}  // namespace oneflow
