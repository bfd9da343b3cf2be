#include "oneflow_core/verify/verify_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/verify/checks.h"

namespace oneflow {
namespace {

// The axes of several devices along which each has the same part of a register.
std::set<int64_t> ReplicatedAxes(const proto::Plan& plan, const proto::Register& r) {
  std::set<int64_t> axes;
  for (int axis = 0; axis < plan.mesh().axis_size(); ++axis) {
    const bool splits =
        std::any_of(r.layout().split().begin(), r.layout().split().end(),
                    [axis](const proto::Layout::Split& split) { return split.axis() == axis; });
    if (!splits && axis != plan.stage_axis() && plan.mesh().axis(axis).size() > 1) {
      axes.insert(axis);
    }
  }
  return axes;
}

std::set<int64_t> ReplicatedAxes(const proto::Plan& plan, const proto::Actor& save) {
  std::set<int64_t> axes;
  const auto said = save.attr().find("replicated_axes");
  if (said == save.attr().end()) return axes;
  for (const int64_t axis : said->second.ints().value()) {
    if (axis != plan.stage_axis() && plan.mesh().axis(static_cast<int>(axis)).size() > 1) {
      axes.insert(axis);
    }
  }
  return axes;
}

absl::Status CheckSaves(const PlanNet& net, const std::string& where) {
  const proto::Plan& plan = *net.plan;
  std::map<std::string_view, int64_t> saved;
  for (const proto::Actor& actor : net.program->actor()) {
    if (actor.kernel() != "save_slice") continue;
    saved[actor.attr().at("name").s()] += net.actors[actor.id()].firings;
    for (const proto::Input& input : actor.input()) {
      const proto::Register& r = *net.registers[input.register_()].proto;
      if (IsControl(r) || ReplicatedAxes(plan, actor) == ReplicatedAxes(plan, r)) continue;
      return DamagedPlan(absl::StrCat(where, ", actor ", actor.name()),
                         absl::StrCat("does not save each part of ", r.name(), " once"));
    }
  }
  for (const proto::Variable& v : plan.variable()) {
    if (saved[v.name()] == (v.frozen() ? 0 : 1)) continue;
    return DamagedPlan(where,
                       absl::StrCat("saves variable ", v.name(), " ", saved[v.name()], " times"));
  }
  return absl::OkStatus();
}

// Of the actors that fill a register of a device: those of a GPU copy from pinned memory.
const proto::Actor* FindSource(const PlanNet& net, int reg) {
  const NetRegister* r = &net.registers[reg];
  if (r->writer < 0) return nullptr;
  const proto::Actor& actor = net.actor(r->writer);
  if (actor.kernel() != "copy_in") return &actor;
  r = &net.registers[DataInputs(*net.plan, *net.program, actor)[0]];
  return r->writer < 0 ? nullptr : &net.actor(r->writer);
}

absl::Status CheckFills(const PlanNet& net, std::string_view kernel, const std::string& where) {
  for (const proto::Variable& v : net.plan->variable()) {
    for (const int id : v.register_()) {
      const proto::Actor* source = FindSource(net, id);
      const proto::Register& r = net.plan->persistent(id);
      if (source != nullptr && source->kernel() == kernel &&
          net.actors[source->id()].firings == r.slots()) {
        continue;
      }
      return DamagedPlan(where,
                         absl::StrCat("does not fill ", r.name(), " of variable ", v.name()));
    }
  }
  return absl::OkStatus();
}

// A variable that nothing trains keeps its value in every step.
absl::Status CheckReadOnly(const PlanNet& net, const std::string& where) {
  for (const proto::Variable& v : net.plan->variable()) {
    if (!v.read_only()) continue;
    for (const int id : v.register_()) {
      const int writer = net.registers[id].writer;
      if (writer < 0) continue;
      return DamagedPlan(absl::StrCat(where, ", actor ", net.actor(writer).name()),
                         absl::StrCat("writes ", v.name(), ", which is frozen"));
    }
  }
  return absl::OkStatus();
}

// Of a variable that is not saved: its base has it.
absl::Status CheckFrozen(const proto::Plan& plan) {
  for (const proto::Variable& v : plan.variable()) {
    if (!v.frozen()) continue;
    if (!v.read_only()) {
      return DamagedPlan("plan",
                         absl::StrCat("variable ", v.name(), " is frozen but not read_only"));
    }
    if (!plan.graph().has_base()) {
      return DamagedPlan(
          "plan", absl::StrCat("variable ", v.name(), " is not saved, and the graph has no base"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyStatePrograms(const proto::Plan& plan) {
  RETURN_IF_ERROR(CheckFrozen(plan));
  constexpr const char* kNames[] = {"init", "save", "load"};
  const auto has = [&plan](const char* name) { return FindProgram(plan, name) != nullptr; };
  if (!has("train") || std::ranges::none_of(kNames, has)) return absl::OkStatus();
  for (const char* name : kNames) {
    if (has(name)) continue;
    return DamagedPlan("plan", absl::StrCat("has a program train, but no program ", name));
  }
  return absl::OkStatus();
}

absl::Status VerifyStates(const PlanNet& net) {
  const std::string& name = net.program->name();
  const std::string where = absl::StrCat("plan, program ", name);
  if (name == "save") return CheckSaves(net, where);
  if (name == "init") return CheckFills(net, "init_variable", where);
  if (name == "load") return CheckFills(net, "load_slice", where);
  return CheckReadOnly(net, where);
}

}  // namespace oneflow
