// A front of plans, for people and for programs.
#pragma once

#include <string>

#include "oneflow_core/print/report.h"
#include "planning/search/pareto.h"
#include "planning/search/result_text.h"

namespace oneflow {

// `frame`: given_flags without --memory, which differs from plan to plan.
// All flags with which compile makes the plan of a point.
std::string PointFlags(const ResultFrame& frame, const ParetoPoint& point);

// The plans of the front, and how each search ended; in JSON also all other plans that were found.
Report DescribeFront(const ResultFrame& frame, const ParetoResult& result);

// "bytes of a device", "devices", "cost of 10^9 tokens".
std::string AxisTitle(ParetoAxis axis);

}  // namespace oneflow
