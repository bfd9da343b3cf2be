// The best plans by two measures: a front of which no plan is worse in both.
//
//   one number of devices        the time of a step against bytes of a device, searched for the
//                                capacity and for 3/4, 1/2, 3/8 and 1/4 of it
//   several numbers              the time of a step against devices; with a price, against what
//                                10^9 tokens cost
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/search/search.h"

namespace oneflow {

enum class ParetoAxis { kBytes, kDevices, kCost };

struct ParetoPoint {
  int64_t devices = 0;
  int64_t capacity = 0;  // of a device, in the search that found it; 0: not limited
  FoundPlan plan;
  double cost = 0;  // of 10^9 tokens; 0: not known
  bool on_front = false;
};

// One of the searches.
struct ParetoSearch {
  int64_t devices = 0, capacity = 0;
  bool complete = false;
  std::optional<double> gap;  // FindGap; none: not known, or nothing found
  std::string none;           // why it found nothing
};

struct ParetoResult {
  ParetoAxis axis = ParetoAxis::kBytes;
  std::vector<ParetoPoint> points;  // each plan once, the fastest first
  std::vector<ParetoSearch> searches;
  double seconds = 0;
};

struct ParetoOptions {
  SearchOptions search;          // its budget is of all searches together
  std::vector<int64_t> devices;  // at least one
  double price = 0;              // of a device, an hour; 0: not known
};

using SearchFunction =
    std::function<absl::StatusOr<SearchResult>(const SearchSpec&, const SearchOptions&)>;

// `search`: Search. An error if none of the searches finds a plan: that of the first.
absl::StatusOr<ParetoResult> FindPareto(const SearchSpec& spec, const ParetoOptions& options,
                                        const SearchFunction& search = &Search);

// The point's number on the axis that is not time.
double FindMeasure(const ParetoPoint& point, ParetoAxis axis);

// Sets on_front of the points of which no other is better in one of time and measure, and no worse
// in the other.
void MarkFront(ParetoAxis axis, std::vector<ParetoPoint>* points);

}  // namespace oneflow
