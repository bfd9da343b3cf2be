#include "tools/oneflow/cli/idle_flags.h"

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/recipe/row.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "planning/recipe/make_plan.h"
#include "tools/oneflow/cli/plan_file.h"

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
  std::fprintf(stderr,
               "oneflow: warning: --offload=activations saves no memory in this plan: a device "
               "takes %s with it, %s without\n",
               BytesText(MostDeviceBytes(plan)).c_str(),
               BytesText(MostDeviceBytes(other->plan)).c_str());
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
    std::fprintf(stderr, "oneflow: warning: --%s=%s %s%s\n", name.c_str(),
                 args.Repeated(name)[0].c_str(), idle, why.c_str());
  }
  return absl::OkStatus();
}

}  // namespace oneflow
