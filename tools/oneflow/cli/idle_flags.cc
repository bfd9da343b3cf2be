#include "tools/oneflow/cli/idle_flags.h"

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/row.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/recipe/make_plan.h"
#include "tools/oneflow/cli/plan_file.h"
#include "tools/oneflow/cli/progress_printer.h"

namespace oneflow {

void WarnOfIdleOffload(const GraphSource& source, const PlanRequest& options,
                       const proto::Plan& plan) {
  // A larger plan keeps more than the buffers of its copies take, and its compilation costs more.
  constexpr int64_t kSmall = int64_t{1} << 30;
  if (!options.recipe.offload().has_activations() || FindProgram(plan, "train") == nullptr) return;
  if (MostDeviceBytes(plan) > kSmall) return;
  PlanRequest without = options;
  without.recipe.mutable_offload()->clear_activations();
  const absl::StatusOr<Planned> other = MakePlan(source, without);
  if (!other.ok() || MostDeviceBytes(other->plan) > MostDeviceBytes(plan)) return;
  PrintNotice(
      absl::StrFormat("warning: --offload=activations saves no memory in this plan: a device takes "
                      "%s with it, %s without",
                      BytesText(MostDeviceBytes(plan)), BytesText(MostDeviceBytes(other->plan))));
}

absl::Status WarnOfIdleFlags(const Arguments& args, const PlanRequest& request,
                             const proto::Graph& graph) {
  ASSIGN_OR_RETURN(const PlanRequest complete, Completed(request));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(complete.recipe.mesh()));
  const PlanCase plan{complete.recipe, graph, mesh};
  // A printed recipe says every choice; whoever writes his own means what he says.
  const bool printed = IsPlanFile(args.file.model().graph());
  for (const Row& row : RecipeRows()) {
    const std::string name(row.name);
    if (row.idle == nullptr || !args.Given(name)) continue;
    if (printed && args.of_recipe.contains(name)) continue;
    const std::string why(row.idle(plan));
    if (why.empty()) continue;
    const char* idle = why.starts_with("asks") ? "" : "acts on nothing in this plan: ";
    PrintNotice(absl::StrFormat("warning: --%s=%s %s%s", name, args.Repeated(name)[0], idle, why));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
