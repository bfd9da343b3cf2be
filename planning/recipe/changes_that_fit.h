// Changes with which a plan fits its devices, for one that does not.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "compiler/compile.h"
#include "planning/recipe/make_plan.h"

namespace oneflow {

// Seconds of all threads of the process.
double CpuSeconds();

// How long plans that fit are looked for.
struct LookingTime {
  std::function<double()> clock = &CpuSeconds;
  double most = 20;   // seconds of the clock
  double a_plan = 0;  // that MakePlan took, to refuse a plan or to make a similar one
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
// A change whose draft needs too much is not compiled. Beyond these drafts, one of the plan in bf16
// and those of the first two changes, nothing is begun for which no time is left: what fits by its
// draft alone is called so, and what was not tried is named.
absl::Status WithChangesThatFit(const absl::Status& refused, const GraphSource& source,
                                const PlanRequest& request, const LookingTime& time,
                                const Reporter& report);

}  // namespace oneflow
