// A result of a search, for people and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/print/report.h"
#include "planning/search/result.h"
#include "planning/search/search.h"

namespace oneflow {

// The model and the devices of a result.
struct ResultFrame {
  std::string model, cluster;  // names
  int64_t devices = 0;
  int64_t capacity = 0;     // bytes of a device; 0: not limited
  std::string given_flags;  // of compile, beside those of a candidate: "--graph=gpt.textproto ..."
  std::string space;        // DescribeSpace
};

// All flags with which compile makes the plan of a candidate.
std::string CompileFlags(const ResultFrame& frame, const proto::Recipe& candidate);

// A letter for each plan, "A", "B", ...: the same where the bits of a run are the same (BitsKey).
std::vector<std::string> GroupByBits(const std::vector<FoundPlan>& found);

// Two lines for each plan: the numbers of `first`, whose first row is titles, then those of the
// plan; and below them its flags.
using TableRow = std::vector<std::string>;
std::string PlanTable(const std::vector<FoundPlan>& found, const std::vector<TableRow>& first,
                      const std::vector<std::string>& flags);

nlohmann::ordered_json FoundPlanJson(const FoundPlan& plan, const std::string& bits,
                                     const std::string& flags);

// "9.77 KiB", "37.25 GiB".
std::string ShortBytesText(int64_t bytes);

// The table of plans, each with its flags, and what is known of the rest of the space. Requires a
// plan that was found.
Report DescribeResult(const ResultFrame& frame, const SearchResult& result);

// One line, without its end.
std::string ProgressText(const SearchProgress& progress);

// The error of a search that found no plan: why, and what is nearest to fitting.
absl::Status NothingFound(const ResultFrame& frame, const SearchResult& result);

}  // namespace oneflow
