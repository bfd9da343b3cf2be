// The price of a plan whose mixture of experts drops nothing. Its queues have slots for the worst
// routing; priced, they have some for a stated imbalance (oneflow_core/model/annotate_queues.h).
//
//   request.imbalance = kUsualImbalance;
//   ASSIGN_OR_RETURN(const Planned priced, MakePlan(source, request));
//   if (IsPriced(priced.plan)) ...  // else it is the plan itself: no devices split experts
#pragma once

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// True of a graph with a mixture that drops nothing, so that its plans may have a price.
bool IsDropless(const proto::Graph& graph);

// True of a plan whose queues are shorter than any routing needs. It must not be written.
bool IsPriced(const proto::Plan& plan);

// The imbalance up to which a plan fits that does not at the worst: a plan for it was compiled, and
// for some hundredths more none fits. `priced`: the plan of `request`, which fits.
absl::StatusOr<double> FindMostImbalance(const GraphSource& source, const PlanRequest& request,
                                         const proto::Plan& priced);

}  // namespace oneflow
