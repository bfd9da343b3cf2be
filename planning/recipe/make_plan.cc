#include "planning/recipe/make_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/boxed_programs.h"
#include "compiler/lower/overlap.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/annotate_offload.h"
#include "oneflow_core/plan/arenas.h"
#include "planning/recipe/fill_memory.h"
#include "planning/recipe/order_axes.h"
#include "planning/recipe/stage_times.h"

namespace oneflow {
namespace {

// True if the plan needs more than a device has, wherever its registers are. A draft takes a
// fraction of the time of a plan.
bool NeedsTooMuch(const GraphSource& source, const PlanRequest& request, CompileCache* cache) {
  const int64_t capacity = request.cluster.device().memory_bytes();
  if (capacity <= 0) return false;
  const absl::StatusOr<proto::Plan> plan = DraftPlan(source, request, cache);
  if (!plan.ok()) return false;
  for (int arena = 0; arena < plan->memory_size(); ++arena) {
    const bool device = plan->memory(arena).kind() == proto::DEVICE;
    if (device && plan->facts().lower_bound_bytes(arena) > capacity) return true;
  }
  return false;
}

// True if the number of uses ahead changes anything: weights are gathered, or copied in from the
// host's memory.
bool RunsAhead(const proto::Recipe& recipe, const std::vector<ProgramDraft>& drafts) {
  if (!recipe.overlap()) return false;
  return std::any_of(drafts.begin(), drafts.end(), [&](const ProgramDraft& draft) {
    const std::vector<Lane> lanes = ExchangeLanes(draft.graph, /*gathers_ahead=*/true);
    return RestsOnHost(recipe, draft.graph) ||
           std::find(lanes.begin(), lanes.end(), Lane::kGather) != lanes.end();
  });
}

// Compiles with as many uses ahead as fit, of kUsualPrefetch and fewer. `only_if_least_fits`: a
// plan that cannot fit is not made, so the refusal does not say its bytes.
absl::StatusOr<Planned> CompileAhead(const GraphSource& source, PlanRequest request,
                                     bool only_if_least_fits, CompileCache* cache) {
  absl::StatusOr<proto::Plan> plan = absl::ResourceExhaustedError("needs more than a device has");
  if (!only_if_least_fits || !NeedsTooMuch(source, request, cache)) {
    plan = Compile(source, request, cache);
  }
  Planned planned;
  const bool chosen = !request.recipe.has_prefetch();
  ASSIGN_OR_RETURN(request, Completed(request));
  if (chosen && absl::IsResourceExhausted(plan.status()) &&
      RunsAhead(request.recipe, cache->boxed->drafts)) {
    for (int ahead = request.recipe.prefetch(); ahead > 0;) {
      request.recipe.set_prefetch(--ahead);
      planned.notes = {absl::StrCat("--prefetch=", ahead, ": more uses ahead do not fit a device")};
      // The refusal says what the last one needs.
      const bool says = ahead == 0 && !only_if_least_fits;
      if (says || !NeedsTooMuch(source, request, cache)) {
        plan = Compile(source, request, cache);
      }
      if (!absl::IsResourceExhausted(plan.status())) break;
    }
  }
  ASSIGN_OR_RETURN(planned.plan, std::move(plan));
  return planned;
}

// A plan that does not fit is refused; the layouts that the recipe gives without a cluster may fit.
absl::Status WithLayoutsThatFit(const absl::Status& refused, GraphSource source,
                                const PlanRequest& given, const PlanRequest& complete) {
  if (given.cluster.level_size() == 0 || source.graph.layout_size() > 0) return refused;
  PlanRequest alike = given;
  alike.cluster.Clear();
  alike.recipe.set_state_layouts(true);
  CompileCache cache;
  const absl::StatusOr<FrontEnd> stated = RunFrontEnds(source, alike, {}, &cache);
  if (!stated.ok()) return refused;
  source.graph = stated->plan.graph();
  cache.boxed = nullptr;
  if (!CompileAhead(source, complete, /*only_if_least_fits=*/true, &cache).ok()) return refused;
  return absl::ResourceExhaustedError(
      absl::StrCat(refused.message(),
                   "; the layouts for an unknown cluster fit: compile without --cluster and with "
                   "--layouts_out=FILE, then with --cluster and --graph=FILE"));
}

}  // namespace

absl::StatusOr<Planned> MakePlan(const GraphSource& source, const PlanRequest& given,
                                 CompileCache* cache) {
  CompileCache own;
  if (cache == nullptr) cache = &own;
  PlanRequest request = given;
  if (!request.known_layouts) request.known_layouts = std::make_shared<KnownLayouts>();
  std::vector<std::string> notes;
  RETURN_IF_ERROR(OrderMesh(source, cache, &request, &notes));
  RETURN_IF_ERROR(FitToStages(source, cache, &request, &notes));
  absl::StatusOr<Planned> planned = CompileAhead(source, request, false, cache);
  if (absl::IsResourceExhausted(planned.status())) {
    return WithLayoutsThatFit(planned.status(), source, given, request);
  }
  if (planned.ok()) {
    planned->notes.insert(planned->notes.begin(), notes.begin(), notes.end());
  }
  return planned;
}

absl::StatusOr<proto::Plan> MakeDraft(const GraphSource& source, const PlanRequest& given,
                                      CompileCache* cache) {
  CompileCache own;
  if (cache == nullptr) cache = &own;
  PlanRequest request = given;
  request.recipe.clear_fill_memory();
  std::vector<std::string> notes;
  RETURN_IF_ERROR(OrderMesh(source, cache, &request, &notes, "train"));
  RETURN_IF_ERROR(FitToStages(source, cache, &request, &notes, "train"));
  return DraftPlan(source, request, cache);
}

absl::StatusOr<std::string> MakeTextAfter(const GraphSource& source, const PlanRequest& given,
                                          std::string_view program, std::string_view pass) {
  PlanRequest request = given;
  CompileCache cache;
  std::vector<std::string> notes;
  RETURN_IF_ERROR(OrderMesh(source, &cache, &request, &notes));
  RETURN_IF_ERROR(FitToStages(source, &cache, &request, &notes));
  return TextAfter(source, request, program, pass);
}

}  // namespace oneflow
