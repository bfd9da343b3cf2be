// The price of a plan whose mixture of experts drops nothing. Its queues have slots for the worst
// routing; priced, they have some for a stated imbalance (oneflow_core/model/annotate_queues.h).
//
//   request.imbalance = kUsualImbalance;
//   ASSIGN_OR_RETURN(const Planned priced, MakePlan(source, request));
//   if (FindImbalance(priced.plan) > 0) ...  // else no devices split experts: it is the plan
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "planning/recipe/changes_that_fit.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// True of a graph with a mixture that drops nothing, so that its plans may have a price.
bool IsDropless(const proto::Graph& graph);

// The imbalance of experts at which the plan is priced: its queues are shorter than any routing
// needs, so it must not be written. 0: it has no price.
double FindImbalance(const proto::Plan& plan);

// The imbalance up to which a plan fits that does not at the worst.
struct MostImbalance {
  double value = 0;       // a plan for it was compiled
  bool at_least = false;  // the time ended; else a plan for 0.01 more did not fit

  std::string Text() const;  // "imbalance 2.97", "at least imbalance 2.97"
};

// `priced`: the plan of `request`, which fits. No plan is begun for which no time is left.
absl::StatusOr<MostImbalance> FindMostImbalance(const GraphSource& source,
                                                const PlanRequest& request,
                                                const proto::Plan& priced, const LookingTime& time);

// The flags of a model whose queues have the slots of the priced plan at another imbalance:
// "--slots=2.97 --slot_groups=4". Its plan of the same recipe needs no price.
std::string SlotsFlags(double imbalance, const proto::Plan& priced);

}  // namespace oneflow
