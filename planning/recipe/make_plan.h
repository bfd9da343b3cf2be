// From what a user says to a plan: completes a recipe, and compiles it.
//
//   proto::Recipe recipe;                  // says mesh, batch, ...; what it does not say is chosen
//   ASSIGN_OR_RETURN(const Planned planned, MakePlan(source, {recipe, cluster, optimizer}));
//   planned.plan.recipe()                  // complete: Compile makes the same plan of it
//
// Fields that are chosen if the recipe does not say them, each by a function Recipe -> Recipe of
// this folder:
//   mesh          the order of its axes on a cluster of several levels (order_axes.h), unless
//                 keep_axis_order
//   warm_ups      of zero_bubble, for the times of the stages (stage_times.h)
//   extra_in_flight   as many micro-batches as fit with that prefetch or kUsualPrefetch, where
//                 fill_memory asks for it (fill_memory.h)
//   prefetch      as many uses of weights ahead as fit, at most kUsualPrefetch
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"

namespace oneflow {

struct Planned {
  proto::Plan plan;
  std::vector<std::string> notes;  // choices and their reasons, one sentence each
};

// Errors are those of Compile. If a plan does not fit its devices, other layouts, which may fit,
// would move bits; so they are not taken, but the refusal says how to state them. A pure function.
absl::StatusOr<Planned> MakePlan(const GraphSource& source, const PlanRequest& request,
                                 CompileCache* cache = nullptr);

// DraftPlan of the same recipe, but for what memory decides: micro-batches are not filled up, and
// kUsualPrefetch uses are gathered ahead.
absl::StatusOr<proto::Plan> MakeDraft(const GraphSource& source, const PlanRequest& request,
                                      CompileCache* cache = nullptr);

// TextAfter of the same recipe, but for the uses that are gathered ahead where memory is short.
absl::StatusOr<std::string> MakeTextAfter(const GraphSource& source, const PlanRequest& request,
                                          std::string_view program, std::string_view pass);

}  // namespace oneflow
