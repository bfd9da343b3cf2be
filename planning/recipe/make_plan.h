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

#include <cstdint>
#include <functional>
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

using Reporter = std::function<void(const std::string& sentence)>;

// Errors are those of Compile. `report` (null: none) gets what a plan needs that does not fit, as
// soon as it is known, before fewer uses ahead are tried. A pure function but for that.
absl::StatusOr<Planned> MakePlan(const GraphSource& source, const PlanRequest& request,
                                 CompileCache* cache = nullptr, const Reporter& report = nullptr);

// DraftPlan of the same recipe, but for what memory decides: micro-batches are not filled up, and
// kUsualPrefetch uses are gathered ahead.
absl::StatusOr<proto::Plan> MakeDraft(const GraphSource& source, const PlanRequest& request,
                                      CompileCache* cache = nullptr);

// The same, but no uses are gathered ahead unless the recipe says a number: what needs least.
absl::StatusOr<proto::Plan> MakeLeastDraft(const GraphSource& source, PlanRequest request,
                                           CompileCache* cache = nullptr);

// The bytes that a device needs at least, by a draft or a plan.
int64_t LeastDeviceBytes(const proto::Plan& plan);

// True if no plan of the draft's recipe fits its devices.
bool NeedsTooMuch(const proto::Plan& draft);

// TextAfter of the same recipe, but for the uses that are gathered ahead where memory is short.
absl::StatusOr<std::string> MakeTextAfter(const GraphSource& source, const PlanRequest& request,
                                          std::string_view program, std::string_view pass);

}  // namespace oneflow
