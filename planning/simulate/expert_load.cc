#include "planning/simulate/expert_load.h"

#include <algorithm>

namespace oneflow {
namespace {

bool MultipliesExperts(const proto::Actor& actor) { return actor.attr().contains("taken"); }

}  // namespace

bool HasExperts(const proto::Plan& plan) {
  return std::any_of(plan.program().begin(), plan.program().end(), [](const proto::Program& p) {
    return std::any_of(p.actor().begin(), p.actor().end(), MultipliesExperts);
  });
}

void ScaleExperts(double imbalance, proto::Plan* plan) {
  for (int p = 0; p < plan->facts().program_size(); ++p) {
    proto::ProgramFacts& facts = *plan->mutable_facts()->mutable_program(p);
    for (int a = 0; a < facts.actor_size(); ++a) {
      if (!MultipliesExperts(plan->program(p).actor(a))) continue;
      facts.mutable_actor(a)->set_flops(imbalance * facts.actor(a).flops());
    }
  }
}

}  // namespace oneflow
