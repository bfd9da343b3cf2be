#include "planning/simulate/run_figures.h"

#include <algorithm>

#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

// Slots of queues of experts over those of even routing (oneflow_core/op/route_dims.h); 0: there
// are none.
double FindSlots(const proto::Program& program) {
  int64_t choices = 0, experts = 0, groups = 1;
  double bound = 0;  // capacity, or the imbalance of a price
  const auto raise = [](const proto::Actor& actor, const char* name, int64_t* most) {
    const auto found = actor.attr().find(name);
    if (found != actor.attr().end()) *most = std::max<int64_t>(*most, found->second.i());
  };
  for (const proto::Actor& actor : program.actor()) {
    if (!actor.attr().contains("choices") && !actor.attr().contains("experts")) continue;
    raise(actor, "choices", &choices);
    raise(actor, "experts", &experts);
    raise(actor, "groups", &groups);
    for (const char* name : {"capacity", "imbalance"}) {
      const auto found = actor.attr().find(name);
      if (found != actor.attr().end()) bound = std::max(bound, found->second.f());
    }
  }
  if (choices == 0) return 0;
  const double worst = static_cast<double>(groups * std::min(choices, experts / groups)) /
                       static_cast<double>(choices);
  return bound > 0 ? std::min(bound, worst) : worst;
}

}  // namespace

RunFigures FindFigures(const proto::Plan& plan, std::string_view name) {
  RunFigures run{.trains = name == "train",
                 .sequence = FindSequence(plan.graph()),
                 .parameters = ParameterCount(plan),
                 .devices = 1};
  for (const proto::Mesh::Axis& axis : plan.mesh().axis()) run.devices *= axis.size();
  const proto::Program* program = FindProgram(plan, name);
  if (program != nullptr) {
    run.slots = FindSlots(*program);
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
