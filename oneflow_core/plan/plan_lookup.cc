#include "oneflow_core/plan/plan_lookup.h"

#include <algorithm>
#include <map>

#include "oneflow_core/op/op_def.h"

namespace oneflow {

namespace {

bool HasData(const proto::Plan& plan, const proto::Program& program, int id) {
  const proto::Register* r = FindRegister(plan, program, id);
  return r != nullptr && r->slot_bytes() > 0;
}

}  // namespace

std::string FormName(const proto::Actor& actor) {
  const auto then = actor.attr().find("then");
  return FormName(actor.kernel(), then == actor.attr().end() ? "" : then->second.s());
}

const proto::ProgramFacts& FindFacts(const proto::Plan& plan, const proto::Program& program) {
  const int known = std::min(plan.program_size(), plan.facts().program_size());
  for (int i = 0; i < known; ++i) {
    if (&plan.program(i) == &program) return plan.facts().program(i);
  }
  return proto::ProgramFacts::default_instance();
}

const proto::ActorFacts& FindFacts(const proto::ProgramFacts& facts, int actor) {
  const bool known = actor >= 0 && actor < facts.actor_size();
  return known ? facts.actor(actor) : proto::ActorFacts::default_instance();
}

proto::ActorFacts* MutableFacts(int actor, proto::ProgramFacts* facts) {
  while (facts->actor_size() <= actor) facts->add_actor();
  return facts->mutable_actor(actor);
}

int64_t FindSequence(const proto::Graph& graph) {
  for (const proto::Op& op : graph.op()) {
    const auto source = op.attr().find("source");
    if (op.kind() == "input" && source != op.attr().end() && source->second.s() == "tokens" &&
        op.shape().dim_size() == 2) {
      return op.shape().dim(1).size();
    }
  }
  return 0;
}

std::vector<int> VariableBlocks(const proto::Plan& plan) {
  std::map<std::string_view, int> known;
  for (const proto::Op& op : plan.graph().op()) {
    if (op.kind() == "variable") known[op.name()] = op.has_block() ? op.block() : -1;
  }
  std::vector<int> blocks;
  for (const proto::Variable& variable : plan.variable()) {
    const std::string_view name = variable.name();
    auto it = known.find(name);
    // A state is named after its weight: "w/m".
    if (it == known.end()) it = known.find(name.substr(0, name.rfind('/')));
    blocks.push_back(it == known.end() ? -1 : it->second);
  }
  return blocks;
}

std::vector<int> DataInputs(const proto::Plan& plan, const proto::Program& program,
                            const proto::Actor& actor) {
  std::vector<int> data;
  for (const proto::Input& input : actor.input()) {
    if (HasData(plan, program, input.register_())) data.push_back(input.register_());
  }
  return data;
}

std::vector<int> DataOutputs(const proto::Plan& plan, const proto::Program& program,
                             const proto::Actor& actor) {
  std::vector<int> data;
  for (const int id : actor.output()) {
    if (HasData(plan, program, id)) data.push_back(id);
  }
  return data;
}

std::vector<double> FiringsPerStep(const proto::Program& program) {
  std::vector<double> of_segment(program.segment_size(), 0), firings(program.actor_size(), 0);
  for (const proto::Stream& stream : program.stream()) {
    for (const proto::OrderRun& run : stream.order()) {
      for (const int segment : run.segment()) {
        if (segment < 0 || segment >= program.segment_size()) continue;
        of_segment[segment] += run.repeat();
      }
    }
  }
  for (int s = 0; s < program.segment_size(); ++s) {
    for (const int actor : program.segment(s).actor()) {
      if (actor < 0 || actor >= program.actor_size()) continue;
      firings[actor] += of_segment[s];
    }
  }
  const auto steps = static_cast<double>(std::max<int64_t>(1, program.steps_a_round()));
  for (double& f : firings) f /= steps;
  return firings;
}

std::string ScheduleName(const proto::Plan& plan) {
  const proto::Recipe& recipe = plan.recipe();
  return recipe.has_order() ? recipe.order().name() : recipe.schedule();
}

}  // namespace oneflow
