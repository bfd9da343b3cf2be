// The page of `oneflow search --pareto --format=html`: a figure of the plans, the time of a step
// against the other measure, as one file that needs no network. A point of the front links to the
// page that explains its plan.
#pragma once

#include <string>
#include <vector>

#include "planning/search/pareto.h"
#include "planning/search/result_text.h"

namespace oneflow {

// `links`: for each point the address of its page; "" for one without.
std::string ParetoPage(const ResultFrame& frame, const ParetoResult& result,
                       const std::vector<std::string>& links);

}  // namespace oneflow
