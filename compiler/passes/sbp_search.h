// The search over an SbpProblem. Part of infer_sbp.
#pragma once

#include <vector>

#include "compiler/passes/sbp_problem.h"

namespace oneflow {

// A label for each unit: the cheapest that descent from three starts finds. Deterministic; of equal
// choices the one listed first.
std::vector<int> SearchSbp(const SbpProblem& problem);

// What a complete labelling costs, in bytes.
double PriceOf(const SbpProblem& problem, const std::vector<int>& label);

}  // namespace oneflow
