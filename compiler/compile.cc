// Compiles a graph to a plan, one step after the other. Next: compiler/sbp/infer_sbp.h, the pass
// that chooses the layout of every tensor.
#include "compiler/compile.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/back_end.h"
#include "compiler/boxed_programs.h"
#include "compiler/front_end.h"
#include "compiler/memory/plan_memory.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/stop.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/plan/fingerprint.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {

absl::StatusOr<proto::Plan> Compile(const GraphSource& source, const PlanRequest& request,
                                    CompileCache* cache) {
  // The front end: the ops and their layouts.
  ASSIGN_OR_RETURN(FrontEnd front_end, RunFrontEnds(source, request, {}, cache));
  // The back end: actors and registers, in which order, in how many slots, in which bytes.
  proto::Plan plan = std::move(front_end.plan);
  RETURN_IF_ERROR(AddPrograms(front_end.boxed->drafts, front_end.boxed->ids, front_end.schedule,
                              front_end.stages, request.stop, &plan));
  RETURN_IF_ERROR(CheckStop(request.stop));
  RETURN_IF_ERROR(CheckCapacity(plan, plan.cluster().device()));
  RETURN_IF_ERROR(CheckHostCapacity(plan, plan.cluster(), plan.recipe().host_memory()));

  // The proof calls it damaged input; here it is an error of the compiler's own.
  if (const absl::Status proof = VerifyPlan(plan); !proof.ok()) {
    return absl::InternalError(
        absl::StrCat("the compiler made a plan that fails its proof: ", proof.message()));
  }
  plan.set_fingerprint(Fingerprint(plan));
  return plan;
}

absl::StatusOr<proto::Plan> DraftPlan(const GraphSource& source, const PlanRequest& request,
                                      CompileCache* cache) {
  ASSIGN_OR_RETURN(FrontEnd front_end, RunFrontEnds(source, request, {.program = "train"}, cache));
  const BoxedPrograms& boxed = *front_end.boxed;
  RETURN_IF_ERROR(AddDraft(boxed.drafts.front(), boxed.ids, front_end.schedule, front_end.stages,
                           &front_end.plan));
  return std::move(front_end.plan);
}

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const FrontEndPass& pass : FrontEndPasses()) names.emplace_back(pass.name);
  for (const BackEndStep& step : BackEndSteps()) names.emplace_back(step.name);
  return names;
}

absl::StatusOr<std::string> TextAfter(const GraphSource& source, const PlanRequest& request,
                                      std::string_view program, std::string_view pass) {
  const std::vector<std::string> names = PassNames();
  const auto found = std::find(names.begin(), names.end(), pass);
  if (found == names.end()) {
    return InputError(absl::StrCat("--after=", ToAbsl(pass)), "there is no such pass",
                      absl::StrCat("use ", absl::StrJoin(names, ", ")));
  }
  const bool front = found - names.begin() < std::ssize(FrontEndPasses());
  ASSIGN_OR_RETURN(FrontEnd front_end,
                   RunFrontEnds(source, request, {program, front ? pass : ""}, nullptr));
  const BoxedPrograms& boxed = *front_end.boxed;
  const ProgramDraft& draft = boxed.drafts.back();
  if (front) return ToText(draft.graph, {.why = true});
  BackEndState state{front_end.plan,   draft,
                     boxed.ids,        front_end.schedule,
                     front_end.stages, draft.spec.micro_batches};
  RETURN_IF_ERROR(RunBackEnd(&state, pass));
  *front_end.plan.add_program() = state.lowered.program;
  return PlanText(front_end.plan, std::string(program));
}

absl::StatusOr<proto::Plan> Compile(const proto::Graph& graph, std::string_view file,
                                    const PlanRequest& request) {
  return Compile(GraphSource{graph, std::string(file), {}}, request);
}

}  // namespace oneflow
