// Changes with which a plan fits its devices, for one that does not.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "compiler/compile.h"
#include "planning/recipe/make_plan.h"

namespace oneflow {

// How long changes are looked for.
struct LookingTime {
  std::function<double()> clock;  // seconds, of the process's CPU time
  double most = 20;               // of them
  double a_plan = 0;              // that MakePlan took to refuse the plan
};

// `refused`, of MakePlan of these arguments, behind which stand changes with which the plan fits,
// the cheapest first: a line each with its bytes and the simulated step. Tried are changes of one
// choice (a residual stream of bf16, gathers in the backward, logits in pieces, more of a variable
// split, recompute, twice as many micro-batches, more in the host's memory, an update by the host;
// where the host's memory is limited, half of the activations there), then, if none fits, the
// fewest of the first of them together, then the layouts that the recipe gives without a cluster.
// `report` gets a sentence of each. A line says how its change moves bits.
//
// A plan of bf16 whose f32 sums of gradients alone are too many is told what they would save in
// bf16, which no recipe here says.
//
// A change whose draft needs too much is not compiled. Beyond the drafts of the first two
// changes nothing is begun for which no time is left: what fits by its draft alone is called so,
// and what was not tried is named.
absl::Status WithChangesThatFit(const absl::Status& refused, const GraphSource& source,
                                const PlanRequest& request, const LookingTime& time,
                                const Reporter& report);

}  // namespace oneflow
