#include "planning/search/pareto.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "planning/search/result_text.h"

namespace oneflow {
namespace {

// Parts of the capacity, in eighths.
constexpr int kEighths[] = {8, 6, 4, 3, 2};
constexpr double kSecondsOfHour = 3600;
constexpr double kTokens = 1e9;

// A plan of everything that is searched, one search after the other.
class FrontSearch {
 public:
  FrontSearch(const SearchSpec& spec, const ParetoOptions& options, const SearchFunction& search)
      : spec_(spec), options_(options), search_(search), start_(std::chrono::steady_clock::now()) {
    if (options.devices.size() > 1) {
      result_.axis = options.price > 0 ? ParetoAxis::kCost : ParetoAxis::kDevices;
    }
  }

  absl::StatusOr<ParetoResult> Run() {
    int64_t capacity = UsableBytes(spec_.given.cluster.device());
    if (result_.axis == ParetoAxis::kBytes) {
      left_ = std::size(kEighths);
      for (const int eighths : kEighths) {
        const bool all = eighths == 8;
        if (!all && capacity == 0) capacity = most_bytes_;
        // What does not fit does not fit less.
        if (!Add(options_.devices[0], all ? capacity : capacity / 8 * eighths)) break;
      }
    } else {
      left_ = options_.devices.size();
      for (const int64_t devices : options_.devices) Add(devices, capacity);
    }
    if (result_.points.empty()) return first_error_;
    std::stable_sort(result_.points.begin(), result_.points.end(),
                     [](const ParetoPoint& a, const ParetoPoint& b) {
                       return a.plan.step_seconds < b.plan.step_seconds;
                     });
    MarkFront(result_.axis, &result_.points);
    result_.seconds = Seconds();
    return std::move(result_);
  }

 private:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  // False where nothing was found.
  bool Add(int64_t devices, int64_t capacity) {
    SearchSpec spec = spec_;
    spec.devices = devices;
    SetUsableBytes(capacity, spec.given.cluster.mutable_device());
    SearchOptions options = options_.search;
    const double rest = options_.search.budget_seconds - Seconds();
    options.budget_seconds = std::max(0.0, rest) / static_cast<double>(left_--);
    ParetoSearch ended{.devices = devices, .capacity = capacity};
    absl::StatusOr<SearchResult> found = search_(spec, options);
    absl::Status status = found.status();
    if (found.ok() && found->found.empty()) {
      status = NothingFound({.model = spec.source.graph.name(),
                             .cluster = spec.given.cluster.name(),
                             .devices = devices,
                             .capacity = capacity,
                             .imbalance = spec.given.imbalance},
                            *found);
    }
    if (status.ok()) {
      ended.complete = found->complete;
      if (const double gap = FindGap(*found); std::isfinite(gap)) ended.gap = gap;
      for (const FoundPlan& plan : found->found) AddPoint({devices, capacity, plan});
    } else {
      ended.none = ToStd(status.message());
      if (first_error_.ok()) first_error_ = status;
    }
    result_.searches.push_back(std::move(ended));
    return status.ok();
  }

  void AddPoint(ParetoPoint point) {
    for (const ParetoPoint& known : result_.points) {
      if (known.devices == point.devices && IsSame(known.plan.candidate, point.plan.candidate) &&
          known.plan.bytes == point.plan.bytes) {
        return;
      }
    }
    most_bytes_ = std::max(most_bytes_, point.plan.bytes);
    if (options_.price > 0 && point.plan.tokens_a_second > 0) {
      point.cost = options_.price * static_cast<double>(point.devices) / kSecondsOfHour *
                   (kTokens / point.plan.tokens_a_second);
    }
    result_.points.push_back(std::move(point));
  }

  const SearchSpec& spec_;
  const ParetoOptions& options_;
  const SearchFunction& search_;
  std::chrono::steady_clock::time_point start_;
  size_t left_ = 1;  // searches
  int64_t most_bytes_ = 0;
  absl::Status first_error_;
  ParetoResult result_;
};

}  // namespace

double FindMeasure(const ParetoPoint& point, ParetoAxis axis) {
  switch (axis) {
    case ParetoAxis::kBytes: return static_cast<double>(point.plan.bytes);
    case ParetoAxis::kDevices: return static_cast<double>(point.devices);
    case ParetoAxis::kCost: return point.cost;
  }
  return 0;
}

void MarkFront(ParetoAxis axis, std::vector<ParetoPoint>* points) {
  const auto better = [&](const ParetoPoint& a, const ParetoPoint& b) {
    const double x = FindMeasure(a, axis), y = FindMeasure(b, axis);
    const double s = a.plan.step_seconds, t = b.plan.step_seconds;
    // Of equal plans the first stands for all.
    return x <= y && s <= t && (x < y || s < t || &a < &b);
  };
  for (ParetoPoint& point : *points) {
    point.on_front = std::none_of(points->begin(), points->end(), [&](const ParetoPoint& other) {
      return &other != &point && better(other, point);
    });
  }
}

absl::StatusOr<ParetoResult> FindPareto(const SearchSpec& spec, const ParetoOptions& options,
                                        const SearchFunction& search) {
  return FrontSearch(spec, options, search).Run();
}

}  // namespace oneflow
