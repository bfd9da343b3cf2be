#include "compiler/plan_request.h"

#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {

absl::StatusOr<PlanRequest> Completed(PlanRequest request) {
  proto::Recipe& recipe = request.recipe;
  if (!recipe.has_overlap()) {
    const bool cpu = request.cluster.device().kind() == proto::Device::CPU;
    recipe.set_overlap(recipe.device() != proto::CPU || !cpu);
  }
  if (!recipe.overlap()) recipe.set_prefetch(0);
  if (!recipe.has_prefetch()) recipe.set_prefetch(kUsualPrefetch);
  recipe = WithDefaults(recipe);
  RETURN_IF_ERROR(CheckRecipe(recipe));
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(recipe.mesh()));
  ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(recipe, mesh.stages()));
  if (!schedule.rule.synchronous()) {
    recipe.set_steps_a_round(schedule.rule.steps_a_round);
    recipe.set_global_norm(false);  // stages do not wait for each other
  }
  return request;
}

}  // namespace oneflow
