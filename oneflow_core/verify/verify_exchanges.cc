#include "oneflow_core/verify/checks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

absl::Status VerifyGroup(const proto::Group& group, const Mesh& mesh, const std::string& where) {
  if (group.has_stages()) {
    const int from = group.stages().from(), to = group.stages().to();
    const bool good = group.axis_size() == 0 && from != to && from >= 0 && to >= 0 &&
                      from < mesh.stages() && to < mesh.stages();
    return good ? absl::OkStatus()
                : DamagedPlan(where, absl::StrCat("joins stage ", from, " and stage ", to));
  }
  int last = -1;
  for (const int axis : group.axis()) {
    if (axis <= last || axis >= static_cast<int>(mesh.axes.size()) || axis == mesh.stage_axis()) {
      return DamagedPlan(where, absl::StrCat("joins devices along axis ", axis));
    }
    last = axis;
  }
  return last >= 0 ? absl::OkStatus() : DamagedPlan(where, "joins no devices");
}

absl::Status VerifyCollective(const PlanNet& net, const proto::Actor& actor,
                              const proto::Group& group, const std::string& where,
                              BoxingCheck* boxing) {
  if (group.has_stages()) return DamagedPlan(where, "its group is a pair of stages");
  if (!actor.has_boxing()) return DamagedPlan(where, "says not how elements get to their layout");
  const std::vector<int> in = DataInputs(*net.plan, *net.program, actor);
  const std::vector<int> out = DataOutputs(*net.plan, *net.program, actor);
  if (in.empty() || in.size() != out.size()) {
    return DamagedPlan(
        where, absl::StrCat("has ", in.size(), " inputs with data and ", out.size(), " outputs"));
  }
  const std::vector<int> along(group.axis().begin(), group.axis().end());
  for (size_t i = 0; i < in.size(); ++i) {
    RETURN_IF_ERROR(boxing->Check(actor, *net.registers[in[i]].proto, *net.registers[out[i]].proto,
                                  along, where));
  }
  return absl::OkStatus();
}

// Checks a send together with its receive: neither alone shows which tensor goes where.
absl::Status VerifySend(const PlanNet& net, const proto::Actor& send, const proto::Group& group,
                        const std::string& where, BoxingCheck* boxing) {
  const proto::Actor& receive = net.actor(send.exchange().partner());
  if (!IsReceive(receive.kernel()) || receive.exchange().group() != send.exchange().group()) {
    return DamagedPlan(where,
                       absl::StrCat("its partner ", receive.name(), " is no receive of its group"));
  }
  if (!group.has_stages() || group.stages().from() != send.stage() ||
      group.stages().to() != receive.stage()) {
    return DamagedPlan(where, absl::StrCat("sends from stage ", send.stage(), " to stage ",
                                           receive.stage(), ", its group is ", group.name()));
  }
  const std::vector<int> in = DataInputs(*net.plan, *net.program, send);
  const std::vector<int> out = DataOutputs(*net.plan, *net.program, receive);
  if (!DataOutputs(*net.plan, *net.program, send).empty()) return DamagedPlan(where, "writes data");
  if (in.size() != 1 || out.size() != 1 || !DataInputs(*net.plan, *net.program, receive).empty()) {
    return DamagedPlan(where, "does not send one tensor, or its partner does not receive one");
  }
  if (net.actors[send.id()].firings != net.actors[receive.id()].firings) {
    return DamagedPlan(where,
                       absl::StrCat("fires ", net.actors[send.id()].firings, " times a step, its ",
                                    "partner ", net.actors[receive.id()].firings, " times"));
  }
  const proto::Register &from = *net.registers[in[0]].proto, &to = *net.registers[out[0]].proto;
  RETURN_IF_ERROR(boxing->Check(send, from, to, {}, where));
  return boxing->Check(receive, from, to, {}, where);
}

}  // namespace

absl::Status VerifyGroups(const proto::Plan& plan, const Mesh& mesh) {
  for (int g = 0; g < plan.group_size(); ++g) {
    RETURN_IF_ERROR(VerifyGroup(plan.group(g), mesh,
                                absl::StrCat("plan, group ", g, " (", plan.group(g).name(), ")")));
  }
  return absl::OkStatus();
}

absl::Status VerifyExchange(const PlanNet& net, const proto::Actor& actor, const std::string& where,
                            BoxingCheck* boxing) {
  const proto::Group& group = net.plan->group(actor.exchange().group());
  const std::string& kernel = actor.kernel();
  const bool pairs = IsSend(kernel) || IsReceive(kernel);
  if (actor.exchange().has_partner() != pairs) {
    return DamagedPlan(
        where, absl::StrCat("kernel ", kernel, pairs ? " has no partner" : " has a partner"));
  }
  // An exchange adds if its output accumulates. A control output has no data to add to.
  for (const int id : actor.output()) {
    const proto::Register& r = *net.registers[id].proto;
    if (r.slot_bytes() > 0 || r.fill_mode() == proto::Register::FRESH) continue;
    return DamagedPlan(where, absl::StrCat("adds to ", r.name(), ", which has no bytes"));
  }
  if (IsSend(kernel)) return VerifySend(net, actor, group, where, boxing);
  if (IsReceive(kernel)) {
    const proto::Actor& send = net.actor(actor.exchange().partner());
    return IsSend(send.kernel()) ? absl::OkStatus() : DamagedPlan(where, "its partner is no send");
  }
  if (!IsCollective(kernel)) {
    return DamagedPlan(where, absl::StrCat("kernel ", kernel, " is no exchange"));
  }
  return VerifyCollective(net, actor, group, where, boxing);
}

namespace {

// True for a kernel all of whose results are read by exchanges of its stream alone.
bool ServesItsStream(const PlanNet& net, int actor) {
  bool serves = false;
  for (const int id : net.outputs_of(actor)) {
    const NetRegister& r = net.registers[id];
    serves = !r.persistent && !r.readers.empty() &&
             std::all_of(r.readers.begin(), r.readers.end(), [&](const NetReader& reader) {
               return net.actors[reader.actor].exchange &&
                      net.actors[reader.actor].stream == net.actors[actor].stream;
             });
    if (!serves) return false;
  }
  return serves;
}

}  // namespace

absl::Status VerifyIssue(const PlanNet& net) {
  const std::string where = absl::StrCat("plan, program ", net.program->name());
  std::vector<int64_t> issued(net.actors.size(), 0);
  int last = -1;
  for (const NetIssue& issue : net.issues) {
    if (issue.stage <= last || issue.stage >= StageCount(*net.plan)) {
      return DamagedPlan(
          where, absl::StrCat("its orders of issue are not of stages in ascending order: stage ",
                              issue.stage));
    }
    last = issue.stage;
    for (const NetStream::Run& run : issue.runs) {
      for (const int actor : run.actors) issued[actor] += run.repeat;
    }
  }
  for (size_t a = 0; a < net.actors.size(); ++a) {
    const NetActor& actor = net.actors[a];
    const auto kind = net.streams[actor.stream].proto->kind();
    const std::string& name = net.actor(static_cast<int>(a)).name();
    if (actor.exchange && (kind == proto::Stream::HOST || kind == proto::Stream::HOST_COMPUTE)) {
      return DamagedPlan(where, absl::StrCat("exchange ", name, " stands on a stream of the host"));
    }
    if (!actor.exchange && kind == proto::Stream::EXCHANGE &&
        !ServesItsStream(net, static_cast<int>(a))) {
      return DamagedPlan(where,
                         absl::StrCat("actor ", name,
                                      " is no exchange, but on a stream of them, and not all "
                                      "that read what it writes are exchanges there"));
    }
    if (actor.exchange && issued[a] != actor.firings) {
      return DamagedPlan(where,
                         absl::StrCat("exchange ", name, " fires ", actor.firings,
                                      " times a step, its stage issues it ", issued[a], " times"));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
