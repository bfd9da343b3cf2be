// The page of `oneflow search --pareto --format=html`: a figure of the plans, the time of a step
// against the other measure, as one file that needs no network. A point of the front links to the
// page that explains its plan.
#pragma once

#include <string>
#include <vector>

#include "planning/search/pareto.h"
#include "planning/search/result_text.h"

namespace oneflow {

struct PointPage {
  std::string link;              // its address; "" for a point without
  std::string why_no_plan = {};  // why no plan is written beside the page; else ""
};

// `pages`: those of the points.
std::string ParetoPage(const ResultFrame& frame, const ParetoResult& result,
                       const std::vector<PointPage>& pages);

}  // namespace oneflow
