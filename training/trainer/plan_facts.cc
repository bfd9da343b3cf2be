#include "training/trainer/plan_facts.h"

#include <algorithm>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"

namespace oneflow {
namespace {

std::string NameAttr(const proto::Actor& actor) {
  const auto it = actor.attr().find("name");
  return it == actor.attr().end() ? actor.name() : it->second.s();
}

}  // namespace

absl::StatusOr<ModelFacts> FactsOfModel(const proto::Plan& plan) {
  ModelFacts facts{.sequence = FindSequence(plan.graph())};
  const proto::Program* program = FindProgram(plan, "generate");
  if (program == nullptr) program = FindProgram(plan, "decode");
  if (program != nullptr) {
    for (const proto::Actor& actor : program->actor()) {
      if (actor.kernel() != "fetch" || actor.input().empty()) continue;
      const auto& dims = FindRegister(plan, *program, actor.input(0).register_())->layout().dim();
      if (!dims.empty()) facts.vocab = dims[dims.size() - 1];
    }
  }
  if (facts.sequence == 0 || facts.vocab == 0) {
    return InputError("graph " + plan.graph().name(), "does not read tokens and give logits",
                      "only models written by `oneflow model` (or alike) can be trained on text");
  }
  return facts;
}

std::vector<std::string> HostTensorNames(const proto::Plan& plan, const std::string& program,
                                         const std::string& kernel) {
  std::vector<std::string> names;
  const proto::Program* p = FindProgram(plan, program);
  if (p == nullptr) return names;
  for (const proto::Actor& actor : p->actor()) {
    if (actor.kernel() == kernel) names.push_back(NameAttr(actor));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace oneflow
