#include "oneflow_core/cost/actor_cost.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/call_bytes.h"
#include "oneflow_core/cost/host_cost.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/plan/exchange_window.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// The actors of one program, with what all of them need.
class Costing {
 public:
  Costing(const proto::Plan& plan, const proto::Program& program, const proto::ProgramFacts& facts,
          Mesh mesh)
      : plan_(plan), program_(program), facts_(facts), mesh_(std::move(mesh)) {}

  absl::StatusOr<CallWork> FindCallWork(const proto::Actor& actor) const {
    const std::string form = FormName(actor);
    CallWork call{form, DType::kF32, FindFacts(facts_, actor.id()).flops(), 0};
    const std::vector<int> read_registers = DataInputs(plan_, program_, actor);
    const int typed = !read_registers.empty()   ? read_registers[0]
                      : actor.output_size() > 0 ? actor.output(0)
                                                : -1;
    if (typed >= 0) {
      ASSIGN_OR_RETURN(call.dtype, DTypeFromProto(Reg(typed).dtype(), actor.name()));
    }
    const OpDef* def = FindOpDef(form);
    ASSIGN_OR_RETURN(const double read, BytesReadBy(actor, form));
    call.bytes = read;
    for (const int id : actor.output()) {
      ASSIGN_OR_RETURN(const double bytes, CountBytes(id));
      const proto::Register& r = Reg(id);
      // A product adds to what is there as it goes: that counts once, like each of its operands.
      const bool adds = r.fill_mode() == proto::Register::ACCUMULATE && r.fires_per_fill() > 1 &&
                        (def == nullptr || !def->HasProducts());
      const bool in_place = adds || r.fill_mode() == proto::Register::UPDATE;
      call.bytes += in_place ? 2 * bytes : bytes;
    }
    if (def != nullptr && HasSizes(*def)) {
      RETURN_IF_ERROR(SetLocalSizes(actor, *def, &call));
    }
    return call;
  }

  // `far`: null where nobody has counted.
  absl::StatusOr<ActorTime> Seconds(const proto::Actor& actor, const proto::Cluster& cluster,
                                    const KernelCost& kernels, const FarTraffic* far) const {
    const double firing = FiringSeconds(cluster);
    if (actor.kernel().empty()) return ActorTime{firing};
    // A send takes as long as the receive that it is fired with.
    if (IsSend(actor.kernel())) {
      const proto::Actor& receive = program_.actor(actor.exchange().partner());
      ASSIGN_OR_RETURN(const BoxingWork work, FindBoxingWork(receive));
      ActorTime time = BoxingTime(work, mesh_, cluster, kernels, far);
      // A send takes as long as the receive that it is fired with. No worker reads what goes to
      // another process.
      if (IsBetweenProcesses(work, mesh_, cluster)) time.worker = firing;
      return time;
    }
    if (const std::optional<HostCopy> copy = FindHostCopy(actor.kernel())) {
      ASSIGN_OR_RETURN(const double bytes, BytesWrittenBy(actor));
      return ActorTime{firing + HostCopySeconds(*copy, bytes, cluster)};
    }
    const bool on_host = IsOnHost(actor);
    if ((actor.has_boxing() && !on_host) || actor.has_exchange()) {
      ASSIGN_OR_RETURN(const BoxingWork work, FindBoxingWork(actor));
      return BoxingTime(work, mesh_, cluster, kernels, far);
    }
    ASSIGN_OR_RETURN(const CallWork call, FindCallWork(actor));
    if (on_host) return ActorTime{firing + HostComputeSeconds(call, cluster, kernels)};
    return ActorTime{firing + kernels.Seconds(call) * FindSlowdown(cluster, mesh_.devices())};
  }

 private:
  const proto::Register& Reg(int id) const { return *FindRegister(plan_, program_, id); }

  // True if all data that the actor reads and writes, some at least, is in the host's memory.
  bool IsOnHost(const proto::Actor& actor) const {
    std::vector<int> data = DataInputs(plan_, program_, actor);
    const std::vector<int> written = DataOutputs(plan_, program_, actor);
    data.insert(data.end(), written.begin(), written.end());
    return !data.empty() && std::all_of(data.begin(), data.end(), [this](int id) {
      return Reg(id).memory_kind() == proto::HOST;
    });
  }

  // Of the largest part.
  absl::StatusOr<double> CountBytes(int id) const {
    const proto::Register& r = Reg(id);
    ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(r.layout(), mesh_, r.name()));
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(r.dtype(), r.name()));
    return static_cast<double>(MaxElements(layout, mesh_)) *
           static_cast<double>(ElementBytes(dtype));
  }

  absl::StatusOr<Dims> LargestPart(int id) const {
    const proto::Register& r = Reg(id);
    ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(r.layout(), mesh_, r.name()));
    return LargestSlice(layout, mesh_).size;
  }

  absl::Status SetLocalSizes(const proto::Actor& actor, const OpDef& def, CallWork* call) const {
    ASSIGN_OR_RETURN(const AttrMap attrs, AttrsFromProto(actor.attr(), actor.name()));
    LocalOp local{attrs, {}, {}};
    for (const int id : DataInputs(plan_, program_, actor)) {
      ASSIGN_OR_RETURN(local.in.emplace_back(), LargestPart(id));
    }
    for (const int id : actor.output()) {
      ASSIGN_OR_RETURN(local.out.emplace_back(), LargestPart(id));
    }
    SetSizes(def, local, call);
    return absl::OkStatus();
  }

  const proto::Group& FindGroup(const proto::Actor& actor) const {
    return plan_.group(actor.exchange().group());
  }

  int CountMembersWith(const proto::Actor& actor) const {
    return actor.has_exchange() ? static_cast<int>(CountMembers(FindGroup(actor), mesh_)) : 1;
  }

  absl::StatusOr<double> BytesWrittenBy(const proto::Actor& actor) const {
    double written = 0;
    for (const int id : actor.output()) {
      ASSIGN_OR_RETURN(const double bytes, CountBytes(id));
      written += bytes;
    }
    return written;
  }

  absl::StatusOr<double> BytesReadBy(const proto::Actor& actor, std::string_view form) const {
    if (actor.has_boxing()) {
      // What is written, from one source; of a sum, from each.
      ASSIGN_OR_RETURN(const double written, BytesWrittenBy(actor));
      return actor.boxing().reduce() == proto::Boxing::NONE ? written
                                                            : CountMembersWith(actor) * written;
    }
    std::vector<double> inputs;
    for (const int id : DataInputs(plan_, program_, actor)) {
      ASSIGN_OR_RETURN(const double bytes, CountBytes(id));
      inputs.push_back(bytes);
    }
    double first_output = 0;
    if (actor.output_size() > 0) {
      ASSIGN_OR_RETURN(first_output, CountBytes(actor.output(0)));
    }
    return BytesRead(form, std::move(inputs), first_output);
  }

  absl::StatusOr<BoxingWork> FindBoxingWork(const proto::Actor& actor) const {
    BoxingWork work{.primitive = PrimitiveName(actor)};
    if (actor.has_exchange()) {
      const proto::Group& group = FindGroup(actor);
      work.axes = {group.axis().begin(), group.axis().end()};
      if (group.has_stages()) work.from = group.stages().from(), work.to = group.stages().to();
    }
    work.members = CountMembersWith(actor);
    work.sums = actor.boxing().reduce() != proto::Boxing::NONE;
    ASSIGN_OR_RETURN(const CallWork call, FindCallWork(actor));
    work.dtype = call.dtype;
    work.flops = call.flops;
    ASSIGN_OR_RETURN(work.written, BytesWrittenBy(actor));
    ASSIGN_OR_RETURN(const double read, BytesReadBy(actor, call.kernel));
    work.rewritten = call.bytes - read - work.written;
    work.received = BytesOverLinks(work, FindFacts(facts_, actor.id()).bytes_moved());
    return work;
  }

  // A kernel that is no primitive of boxing goes once around a ring.
  std::string_view PrimitiveName(const proto::Actor& actor) const {
    if (actor.has_exchange() && FindGroup(actor).has_stages()) return "transfer";
    return IsBoxing(actor.kernel()) ? std::string_view(actor.kernel()) : "all_gather";
  }

  const proto::Plan& plan_;
  const proto::Program& program_;
  const proto::ProgramFacts& facts_;
  const Mesh mesh_;
};

}  // namespace

double FindSlowdown(const proto::Cluster& cluster, int64_t devices) {
  // Without a size the innermost level is the only one, and holds all.
  const int64_t size = cluster.level_size() > 0 ? cluster.level(0).size() : 0;
  const auto units = static_cast<double>(size > 0 ? (devices + size - 1) / size : 1);
  const proto::Spread& spread = cluster.spread();
  return 1 + spread.slower() * (1 - std::pow(1 - spread.slow_share(), units));
}

absl::StatusOr<CallWork> FindCallWork(const proto::Plan& plan, const proto::Program& program,
                                      const proto::ProgramFacts& facts, const proto::Actor& actor) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(plan.mesh(), "plan"));
  return Costing(plan, program, facts, std::move(mesh)).FindCallWork(actor);
}

absl::StatusOr<std::vector<ActorTime>> ActorTimes(const proto::Plan& plan,
                                                  const proto::Program& program,
                                                  const proto::ProgramFacts& facts,
                                                  const proto::Cluster& cluster,
                                                  const std::vector<FarTraffic>& far) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(plan.mesh(), "plan"));
  const Costing costing(plan, program, facts, std::move(mesh));
  const KernelCost kernels(cluster.device());
  std::vector<ActorTime> times;
  for (const proto::Actor& actor : program.actor()) {
    const FarTraffic* of_actor = far.empty() ? nullptr : &far[actor.id()];
    ASSIGN_OR_RETURN(const ActorTime one, costing.Seconds(actor, cluster, kernels, of_actor));
    times.push_back(one);
  }
  return times;
}

absl::StatusOr<std::vector<double>> ActorSeconds(const proto::Plan& plan,
                                                 const proto::Program& program,
                                                 const proto::ProgramFacts& facts,
                                                 const proto::Cluster& cluster) {
  ASSIGN_OR_RETURN(const std::vector<ActorTime> times, ActorTimes(plan, program, facts, cluster));
  std::vector<double> seconds;
  for (const ActorTime& time : times) seconds.push_back(time.both());
  return seconds;
}

}  // namespace oneflow
