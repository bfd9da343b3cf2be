// The page of `explain --format=html`: a plan simulated, as one file that needs no network: the
// pipeline as a timeline, memory over time, the critical path, the costliest actors and boxing.
//
// The page (page.html) draws what SummaryJson says; the JSON lies in it, in the script element
// "simulation", and is that of `oneflow simulate --format=json`.
#pragma once

#include <string>

#include "actor_runtime/simulate/summary.h"

namespace oneflow {

std::string ExplainPage(const SimulationSummary& summary);

}  // namespace oneflow
