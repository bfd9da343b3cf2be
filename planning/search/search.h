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
  std::optional<EstimatedPlan> estimated;  // until there is a best one
};

struct SearchOptions {
  double budget_seconds = 60;
  int threads = 1;
  int top = 10;            // plans to find
  bool first_fit = false;  // ends with the first plan, which need not be the fastest
  // May be null; called about once a second, and whenever the best changes.
  std::function<void(const SearchProgress&)> observe;
  bool simplest = true;  // also looks for the simplest plan of the best one's class (simplest.h)
  // May be null; true: the search ends, as if its time was over. Asked many times a second.
  std::function<bool()> stop;
};

// At most `top` plans of the space, the fastest first, and behind them the simplest of the class if
// it is none of these. That nothing fits is no error: then
// `found` is empty, and `nearest` says what is nearest to fitting.
//
// Ordinary plans come first (ordinary.h): the best by formulas get short plans, and the best of
// these is compiled before anything else is looked at. Then the group that is likely to be fastest
// climbs the ladder (ladder.h), until none that is left promises to be faster.
absl::StatusOr<SearchResult> Search(const SearchSpec& spec, const SearchOptions& options);

}  // namespace oneflow
