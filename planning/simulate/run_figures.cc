#include "planning/simulate/run_figures.h"

#include <algorithm>

#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

bool HasExperts(const proto::Plan& plan) {
  const auto multiplies = [](const proto::Actor& actor) { return actor.attr().contains("taken"); };
  return std::any_of(plan.program().begin(), plan.program().end(), [&](const proto::Program& p) {
    return std::any_of(p.actor().begin(), p.actor().end(), multiplies);
  });
}

}  // namespace

RunFigures FindFigures(const proto::Plan& plan, std::string_view name) {
  RunFigures run{.trains = name == "train",
                 .experts = HasExperts(plan),
                 .sequence = FindSequence(plan.graph()),
                 .parameters = ParameterCount(plan),
                 .devices = 1};
  for (const proto::Mesh::Axis& axis : plan.mesh().axis()) run.devices *= axis.size();
  const proto::Program* program = FindProgram(plan, name);
  if (program != nullptr) {
    run.device_tokens = static_cast<double>(program->micro_batches()) *
                        static_cast<double>(program->micro_batch_size()) *
                        static_cast<double>(run.sequence) / static_cast<double>(run.devices);
  }
  return run;
}

Band FindPlanBand(const proto::Cluster& cluster, const proto::Plan& plan,
                  std::string_view program) {
  return FindBand(cluster, FindFigures(plan, program));
}

}  // namespace oneflow
