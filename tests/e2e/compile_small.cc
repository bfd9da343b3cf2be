#include <stdexcept>

#include "planning/recipe/make_plan.h"
#include "tests/e2e/recorded_plans.h"
#include "tests/e2e/small_run.h"

namespace oneflow {

proto::Plan CompileSmall(const SmallRun& run) {
  PlanRequest request{.recipe = run.recipe, .cluster = run.cluster};
  proto::Optimizer& optimizer = request.optimizer;
  optimizer.set_learning_rate(1e-2);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_epsilon(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip(run.recipe.global_norm() ? 1 : 0);
  request.cluster.mutable_device()->set_kernel_threads(run.threads);
  if (run.recipe.sequence_parallel()) {
    request.cluster.add_level()->set_size(8);
    request.cluster.mutable_device()->set_firing_seconds(1e-15);
  }
  proto::Graph graph = BuildModel(run.model);
  if (run.edit) run.edit(&graph);
  const proto::Plan plan = MakePlan({graph, "small", {}}, request)->plan;
  RecordPlan(RecordKey(run), plan);
  return plan;
}

}  // namespace oneflow
