#include "oneflow_core/print/plan_json.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/plan/address_period.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/variable_text.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

Json OrderJson(const proto::Program& program, const proto::Stream& stream) {
  const auto name = [&](int segment) { return program.segment(segment).name(); };
  return JsonList(stream.order(), [&](const proto::OrderRun& run) -> Json {
    return {{"segments", JsonList(run.segment(), name)}, {"repeat", run.repeat()}};
  });
}

Json StageJson(const proto::Program& program, const proto::ProgramFacts& facts, int stage,
               const std::vector<double>& firings) {
  Json streams = Json::array();
  for (const proto::Stream& stream : program.stream()) {
    if (stream.stage() != stage) continue;
    streams.push_back({{"name", stream.name()},
                       {"kind", KindText(stream.kind())},
                       {"order", OrderJson(program, stream)}});
  }
  int actors = 0, registers = 0;
  double flops = 0;
  for (int a = 0; a < program.actor_size(); ++a) {
    if (program.actor(a).stage() != stage) continue;
    ++actors;
    flops += FindFacts(facts, a).flops() * firings[a];
  }
  for (const proto::Register& r : program.register_()) registers += r.stage() == stage;
  return {{"stage", stage},
          {"actors", actors},
          {"registers", registers},
          {"flops_a_step", flops},
          {"streams", std::move(streams)}};
}

Json ProgramJson(const proto::Plan& plan, const proto::Program& program) {
  const std::vector<double> firings = FiringsPerStep(program);
  const proto::ProgramFacts& facts = FindFacts(plan, program);
  Json stages = Json::array();
  for (int s = 0; s < StageCount(plan); ++s)
    stages.push_back(StageJson(program, facts, s, firings));
  Json boxing = Json::array(), actors = Json::array();
  for (int a = 0; a < program.actor_size(); ++a) {
    const proto::Actor& actor = program.actor(a);
    const proto::ActorFacts& known = FindFacts(facts, a);
    actors.push_back({{"name", actor.name()},
                      {"kernel", FormName(actor)},
                      {"stage", actor.stage()},
                      {"flops", known.flops()}});
    if (!actor.has_boxing()) continue;
    boxing.push_back({{"actor", actor.name()},
                      {"kernel", FormName(actor)},
                      {"stage", actor.stage()},
                      {"group", GroupText(plan, actor)},
                      {"bytes", known.bytes_moved()},
                      {"seconds", known.seconds()},
                      {"why", known.why()}});
  }
  const AddressPeriod period = FindAddressPeriod(plan, program);
  return {{"name", program.name()},
          {"micro_batches", program.micro_batches()},
          {"micro_batch_size", program.micro_batch_size()},
          {"address_period_steps", period.steps},
          {"address_period_micro_batches", period.micro_batches},
          {"stages", std::move(stages)},
          {"boxing", std::move(boxing)},
          {"actors", std::move(actors)}};
}

int64_t HostPersistentBytes(const proto::Plan& plan, int stage) {
  if (!HasHostArenas(plan)) return 0;
  return plan.memory(ArenaIndex(proto::HOST, stage, StageCount(plan))).persistent_bytes();
}

Json MemoryJson(const proto::Plan& plan, int stage, int devices) {
  const proto::StageMemory& m = plan.memory(stage);
  return {{"stage", m.stage()},
          {"devices", devices},
          {"arena_bytes", m.arena_bytes()},
          {"persistent_bytes", m.persistent_bytes()},
          {"register_bytes", m.register_bytes()},
          {"host_bytes", HostArenaBytes(plan, stage)},
          {"host_persistent_bytes", HostPersistentBytes(plan, stage)},
          {"lower_bound_bytes", LowerBoundBytes(plan, stage)}};
}

}  // namespace

Json PlanJson(const proto::Plan& plan, const std::string& proof) {
  Json mesh = Json::object();
  int devices = 1;
  for (const auto& axis : plan.mesh().axis()) {
    mesh[axis.name()] = axis.size();
    devices *= axis.size();
  }
  const int stages = StageCount(plan);
  Json memory = Json::array();
  for (int s = 0; s < stages; ++s) {
    memory.push_back(MemoryJson(plan, s, devices / std::max(1, stages)));
  }
  std::map<std::string_view, Json> layouts;
  for (const VariableLayouts& v : FindVariableLayouts(plan)) {
    layouts[v.variable->name()] = VariableJson(plan, v);
  }
  Json variables = JsonList(plan.variable(), [&](const proto::Variable& v) {
    Json variable = {
        {"name", v.name()}, {"dims", v.layout().dim()}, {"replicas", v.register__size()}};
    if (const auto known = layouts.find(v.name()); known != layouts.end()) {
      variable.update(known->second);
    }
    return variable;
  });
  return {{"model", plan.model()},
          {"fingerprint", plan.fingerprint()},
          {"version", plan.version()},
          {"proof", proof},
          {"mesh", std::move(mesh)},
          {"devices", devices},
          {"stages", std::move(memory)},
          {"programs", JsonList(plan.program(),
                                [&](const auto& program) { return ProgramJson(plan, program); })},
          {"variables", std::move(variables)},
          {"notes", plan.facts().note()}};
}

}  // namespace oneflow
