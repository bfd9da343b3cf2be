// The result of a search.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "oneflow_core/print/band.h"
#include "planning/search/candidate.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A candidate whose plan was compiled, proved and simulated.
struct FoundPlan {
  proto::Recipe candidate;
  double step_seconds = 0;
  int64_t bytes = 0;            // of the device that needs most
  int64_t host_bytes = 0;       // of the host's memory, a device
  double bubble = 0;            // share of a step
  double exposed_exchange = 0;  // seconds of a step, of the stage that has most
  double tokens_a_second = 0;   // 0: the graph reads no tokens
  double device_tokens_a_second = 0;
  std::optional<double> mfu;  // none: the cluster does not say its peak
  std::string mfu_counts;     // WhatCounts
  std::string why_above_all;  // of the MFU; else ""
  Band band;                  // of step_seconds
  double imbalance = 0;       // of experts, at which it is priced (price_queues.h); 0: no price
};

// What short plans say of a plan that is not compiled.
struct EstimatedPlan {
  proto::Recipe candidate;
  double step_seconds = 0;
  double bytes = 0;        // of the device that needs most
  double bytes_error = 0;  // a part of them: the margin of short plans of the model
};

// Numbers of groups by how they ended, in the words of the progress line.
struct SearchCounts {
  int64_t groups = 0;       // of the space
  int64_t refused = 0;      // that cannot be compiled: heads do not divide, ...
  int64_t cannot_fit = 0;   // a device, by a bound of bytes
  int64_t too_large = 0;    // by short plans, or as compiled
  int64_t too_slow = 0;     // that cannot be faster than the best, by a bound of seconds
  int64_t short_plans = 0;  // made
  int64_t compiled = 0;     // full plans, simulated
  int64_t did_not_fit = 0;  // full plans that did not fit a device
  int64_t open = 0;         // groups about which the search ended without knowing
  int64_t listed = 0;       // of these, known by formulas alone
  int64_t unlisted = 0;     // of these, not even by formulas
};

// The candidate that is nearest to fitting where nothing fits.
struct NearestMiss {
  proto::Recipe candidate;
  int64_t bytes = 0;    // that it needs
  bool bounded = true;  // at least, by a bound; else by short plans, or as compiled
};

struct SearchResult {
  std::vector<FoundPlan> found;  // the fastest first
  double bound_seconds = 0;      // no plan of the space takes less
  bool complete = false;         // the search ended by itself, not by its budget
  SearchCounts counts;
  double seconds = 0;  // that the search took
  // Seconds of the CPU, until a plan was estimated, and until one was found; none: there was none.
  std::optional<double> cpu_until_estimate, cpu_until_plan;
  // The least seconds that formulas and short plans say of a group without a plan; 0: there is
  // none.
  double least_estimate = 0;
  proto::Plan best;                        // of found[0]
  std::optional<EstimatedPlan> estimated;  // where nothing was compiled in time
  std::vector<EstimatedPlan> estimates;    // of groups without a plan, the fastest first
  std::optional<NearestMiss> nearest;
};

// found[0] / bound - 1, at least 0: "no plan of the space is more than X % faster"; infinite where
// the search is not complete. Requires a plan that was found.
double FindGap(const SearchResult& result);
// The same by estimates: of groups without a plan none promises more.
double FindEstimatedGap(const SearchResult& result);

}  // namespace oneflow
