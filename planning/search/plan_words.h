// What a plan does otherwise than another, and what that saves and costs, in words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "planning/search/result.h"

namespace oneflow {

// The text of a choice of a candidate: "1f1b" of "schedule".
std::string ChoiceText(const proto::Recipe& candidate, std::string_view name);

// "9.77 KiB", "37.25 GiB".
std::string ShortBytesText(int64_t bytes);

// "1.9 % longer, 61.20 GiB instead of 47.40 GiB"; bytes only where they differ by more than 2 %.
std::string TradeText(const FoundPlan& plan, const FoundPlan& first);

// "data=8,tensor=4 instead of data=32: a quarter of the exchange over data, more compute (+6.0 % of
// a step), half the exposed exchange (-4.1 % of a step); 1.9 % longer, 61.20 GiB instead of 47.40
// GiB; other bits than `name`". Parts that change by less than half a percent of the first plan's
// step are left out.
std::string DifferenceText(const FoundPlan& plan, const FoundPlan& first, const std::string& name);

}  // namespace oneflow
