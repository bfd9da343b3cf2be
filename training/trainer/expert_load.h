// The load of experts in a step's report: how the choices of a mixture fall on its experts.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "proto/plan.pb.h"

namespace oneflow {

// Returns the number of counts that the reports of a plan's training have behind the loss and the
// norm: one for each expert, and one for the choices that are dropped; 0: the plan has no experts
// to report.
size_t CountsOfReport(const proto::Plan& plan);

// All of these take the counts of a step over all blocks, as the pass count_choices has them.

// The share of choices that found no slot.
double DroppedShare(std::span<const double> counts);
// ", \"dropped\": 0.01, \"expert_shares\": [0.25, 0.75]"; "" without counts. Shares add up to 1.
std::string ExpertLoadJson(std::span<const double> counts);
// The choices of the expert that has most of them, relative to even ones. Requires counts.
double HottestExpert(std::span<const double> counts);
// "  hottest 1.31x", HottestExpert, and "  dropped 1.2%" if
// some are; "" without counts.
std::string ExpertLoadText(std::span<const double> counts);

// Above it a run warns, once, with this sentence.
inline constexpr double kMuchDropped = 0.05;
std::string DroppedWarning(int64_t step, double share);

}  // namespace oneflow
