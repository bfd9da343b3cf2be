// Plans that a search found, as a table and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/search/result.h"

namespace oneflow {

struct TableColumn {
  std::string title;
  std::vector<std::string> cells;  // one for each plan
};

// A letter for each plan, "A", "B", ...: the same where the bits of a run are the same (BitsKey).
std::vector<std::string> GroupByBits(const std::vector<FoundPlan>& found);

// Two lines for each plan: the columns of numbers `first` and those of the plan, and below them its
// flags.
std::string PlanTable(const std::vector<FoundPlan>& found, const std::vector<TableColumn>& first,
                      const std::vector<std::string>& flags);

nlohmann::ordered_json FoundPlanJson(const FoundPlan& plan, const std::string& bits,
                                     const std::string& flags);

// "1,234,567"; "9.77 KiB", "37.25 GiB".
std::string DigitsText(int64_t number);
std::string ShortBytesText(int64_t bytes);

}  // namespace oneflow
