#include "planning/recipe/make_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/boxed_programs.h"
#include "compiler/lower/overlap.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/model/annotate_offload.h"
#include "oneflow_core/print/plan_text.h"
#include "planning/recipe/fill_memory.h"
#include "planning/recipe/order_axes.h"
#include "planning/recipe/stage_times.h"

namespace oneflow {
namespace {

// "memory of stage 0: needs ..., a device has ...: ... too many", without what takes it.
std::string NeedText(const absl::Status& refused) {
  constexpr std::string_view kEnd = " too many";
  const std::string message(refused.message());
  return absl::StrCat(message.substr(0, message.find(kEnd)), ToAbsl(kEnd));
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

// `refused`; of a plan that is priced, it says at which imbalance.
absl::Status SayPrice(const absl::Status& refused, const PlanRequest& request,
                      const CompileCache& cache) {
  if (!absl::IsResourceExhausted(refused) || !cache.boxed) return refused;
  const bool priced = std::ranges::any_of(cache.boxed->drafts, [](const ProgramDraft& draft) {
    return std::ranges::any_of(draft.graph.ops,
                               [](const Op& op) { return op.attrs.contains("imbalance"); });
  });
  if (!priced) return refused;
  return Annotate(refused, absl::StrCat("experts priced at an imbalance of ", request.imbalance));
}

// Compiles with fewer uses ahead than those of `request`, which do not fit: as many as do. If none
// do, the refusal says what the fewest need.
absl::StatusOr<Planned> CompileFewerAhead(const absl::Status& refused, const GraphSource& source,
                                          PlanRequest request, CompileCache* cache) {
  const int most = request.recipe.prefetch();
  // Fewer uses ahead need no more memory. The draft takes a fraction of the time of a plan.
  request.recipe.set_prefetch(0);
  if (const absl::StatusOr<proto::Plan> least = DraftPlan(source, request, cache);
      least.ok() && NeedsTooMuch(*least)) {
    return absl::ResourceExhaustedError(absl::StrCat(refused.message(), "; with --prefetch=0 ",
                                                     BytesText(LeastDeviceBytes(*least)),
                                                     " or more"));
  }
  Planned planned;
  absl::StatusOr<proto::Plan> plan = refused;
  for (int ahead = most - 1; ahead >= 0 && absl::IsResourceExhausted(plan.status()); --ahead) {
    request.recipe.set_prefetch(ahead);
    plan = Compile(source, request, cache);
    planned.notes = {absl::StrCat("--prefetch=", ahead, ": more uses ahead do not fit a device")};
  }
  ASSIGN_OR_RETURN(planned.plan, std::move(plan));
  return planned;
}

// Compiles with as many uses ahead as fit, of kUsualPrefetch and fewer.
absl::StatusOr<Planned> CompileAhead(const GraphSource& source, PlanRequest request,
                                     CompileCache* cache, const Reporter& report) {
  absl::StatusOr<proto::Plan> plan = Compile(source, request, cache);
  const bool chosen = !request.recipe.has_prefetch();
  ASSIGN_OR_RETURN(request, Completed(request));
  if (absl::IsResourceExhausted(plan.status())) {
    const bool fewer =
        chosen && request.recipe.prefetch() > 0 && RunsAhead(request.recipe, cache->boxed->drafts);
    if (report != nullptr) {
      report(NeedText(SayPrice(plan.status(), request, *cache)) +
             (fewer ? "; fewer uses of weights ahead may fit" : ""));
    }
    if (fewer) return CompileFewerAhead(plan.status(), source, request, cache);
  }
  Planned planned;
  ASSIGN_OR_RETURN(planned.plan, std::move(plan));
  return planned;
}

}  // namespace

int64_t LeastDeviceBytes(const proto::Plan& plan) {
  int64_t most = 0;
  for (int arena = 0; arena < plan.memory_size(); ++arena) {
    if (plan.memory(arena).kind() != proto::DEVICE) continue;
    most = std::max(most, plan.facts().lower_bound_bytes(arena));
  }
  return most;
}

bool NeedsTooMuch(const proto::Plan& draft) {
  const int64_t capacity = UsableBytes(draft.cluster().device());
  return capacity > 0 && LeastDeviceBytes(draft) > capacity;
}

absl::StatusOr<Planned> MakePlan(const GraphSource& source, const PlanRequest& given,
                                 CompileCache* cache, const Reporter& report) {
  CompileCache own;
  if (cache == nullptr) cache = &own;
  PlanRequest request = given;
  if (!request.known_layouts) request.known_layouts = std::make_shared<KnownLayouts>();
  std::vector<std::string> notes;
  RETURN_IF_ERROR(OrderMesh(source, cache, &request, &notes));
  RETURN_IF_ERROR(FitToStages(source, cache, &request, &notes));
  absl::StatusOr<Planned> planned = CompileAhead(source, request, cache, report);
  RETURN_IF_ERROR(SayPrice(planned.status(), request, *cache));
  planned->notes.insert(planned->notes.begin(), notes.begin(), notes.end());
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

absl::StatusOr<proto::Plan> MakeLeastDraft(const GraphSource& source, PlanRequest request,
                                           CompileCache* cache) {
  if (!request.recipe.has_prefetch()) request.recipe.set_prefetch(0);
  return MakeDraft(source, request, cache);
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
