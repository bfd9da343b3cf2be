#include "oneflow_core/cost/actor_cost.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/call_bytes.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// Of a packet, and packets of a member that are asked for at once: where nobody has counted them.
constexpr double kPacketBytes = 256 << 10, kFlights = 2;

// The actors of one program, with what all of them need.
class Costing {
 public:
  Costing(const proto::Plan& plan, const proto::Program& program, const proto::ProgramFacts& facts,
          Mesh mesh)
      : plan_(plan), program_(program), facts_(facts), mesh_(std::move(mesh)) {}

  absl::StatusOr<CallWork> CallOf(const proto::Actor& actor) const {
    CallWork call{actor.kernel(), DType::kF32, FindFacts(facts_, actor.id()).flops(), 0};
    const std::vector<int> read_registers = DataInputs(plan_, program_, actor);
    const int typed = !read_registers.empty()   ? read_registers[0]
                      : actor.output_size() > 0 ? actor.output(0)
                                                : -1;
    if (typed >= 0) {
      ASSIGN_OR_RETURN(call.dtype, DTypeFromProto(Reg(typed).dtype(), actor.name()));
    }
    const OpDef* def = FindOpDef(actor.kernel());
    const Products products = def == nullptr ? Products::kNone : def->products;
    ASSIGN_OR_RETURN(const double read, BytesReadBy(actor));
    call.bytes = read;
    for (const int id : actor.output()) {
      ASSIGN_OR_RETURN(const double bytes, BytesOf(id));
      const proto::Register& r = Reg(id);
      // A product adds to what is there as it goes: that counts once, like each of its operands.
      const bool adds = r.fill_mode() == proto::Register::ACCUMULATE && r.fires_per_fill() > 1 &&
                        products == Products::kNone;
      const bool in_place = adds || r.fill_mode() == proto::Register::UPDATE;
      call.bytes += in_place ? 2 * bytes : bytes;
    }
    RETURN_IF_ERROR(SetResults(actor, products, &call));
    return call;
  }

  // `far`: null where nobody has counted.
  absl::StatusOr<ActorTime> Seconds(const proto::Actor& actor, const proto::Cluster& cluster,
                                    const KernelCost& kernels, const FarTraffic* far) const {
    const double firing = cluster.device().firing_seconds();
    if (actor.kernel().empty()) return ActorTime{firing};
    // A send takes as long as the receive that it is fired with.
    if (actor.kernel() == "send") {
      ASSIGN_OR_RETURN(ActorTime time,
                       Seconds(program_.actor(actor.exchange().partner()), cluster, kernels, far));
      // What goes to another process is read by no worker.
      if (IsFar(actor, cluster)) time.worker = firing;
      return time;
    }
    if (IsFar(actor, cluster)) return FarSeconds(actor, cluster, kernels, far);
    ASSIGN_OR_RETURN(CallWork call, CallOf(actor));
    if (actor.has_exchange() && cluster.device().kind() != proto::Device::CPU) {
      ASSIGN_OR_RETURN(const double received, Received(actor));
      if (received > 0) {
        const GroupLinks links = LinksOf(actor, cluster);
        return ActorTime{firing + ExchangeSeconds(PrimitiveOf(actor), received, links), 0,
                         ProcessorUsage(links)};
      }
    }
    if (actor.has_boxing()) {
      // A copy, or a sum, whatever its name.
      call.kernel = actor.boxing().reduce() == proto::Boxing::NONE ? "slice" : "add";
    }
    return ActorTime{firing + kernels.Seconds(call)};
  }

 private:
  const proto::Register& Reg(int id) const { return *FindRegister(plan_, program_, id); }

  // Of the largest part.
  absl::StatusOr<double> ElementsOf(int id) const {
    const proto::Register& r = Reg(id);
    ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(r.layout(), mesh_, r.name()));
    return static_cast<double>(MaxElements(layout, mesh_));
  }
  absl::StatusOr<double> BytesOf(int id) const {
    const proto::Register& r = Reg(id);
    ASSIGN_OR_RETURN(const double elements, ElementsOf(id));
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(r.dtype(), r.name()));
    return elements * static_cast<double>(ElementBytes(dtype));
  }

  // Of m k and k n elements comes one of m n, wherever the dimensions of a tensor are divided
  // between rows and columns. Each matrix of a batch has the last two.
  absl::Status SetResults(const proto::Actor& actor, Products products, CallWork* call) const {
    if (products == Products::kNone || products == Products::kOwn) return absl::OkStatus();
    ASSIGN_OR_RETURN(double left, ElementsOf(actor.input(0).register_()));
    ASSIGN_OR_RETURN(double right, ElementsOf(actor.input(1).register_()));
    ASSIGN_OR_RETURN(double result, ElementsOf(actor.output(0)));
    if (left <= 0 || right <= 0 || result <= 0) return absl::OkStatus();
    call->products = 1;
    if (products == Products::kBatch) {
      ASSIGN_OR_RETURN(call->products, MatricesIn(actor.output(0)));
    }
    left /= call->products, right /= call->products, result /= call->products;
    call->rows = std::round(std::sqrt(left * result / right));
    call->columns = std::round(std::sqrt(right * result / left));
    return absl::OkStatus();
  }

  absl::StatusOr<double> MatricesIn(int id) const {
    const proto::Register& r = Reg(id);
    ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(r.layout(), mesh_, r.name()));
    const Slice slice = LargestSlice(layout, mesh_);
    double matrices = 1;
    for (size_t d = 0; d + 2 < slice.size.size(); ++d) {
      matrices *= static_cast<double>(slice.size[d]);
    }
    return matrices;
  }

  const proto::Group& GroupOf(const proto::Actor& actor) const {
    return plan_.group(actor.exchange().group());
  }

  // Of its group, along the axes of a stage.
  int MembersOf(const proto::Actor& actor) const {
    int members = 1;
    if (!actor.has_exchange()) return members;
    for (const int axis : GroupOf(actor).axis()) members *= mesh_.axes[axis].size;
    return members;
  }

  absl::StatusOr<double> BytesWrittenBy(const proto::Actor& actor) const {
    double written = 0;
    for (const int id : actor.output()) {
      ASSIGN_OR_RETURN(const double bytes, BytesOf(id));
      written += bytes;
    }
    return written;
  }

  absl::StatusOr<double> BytesReadBy(const proto::Actor& actor) const {
    if (actor.has_boxing()) {
      // What is written, from one source; of a sum, from each.
      ASSIGN_OR_RETURN(const double written, BytesWrittenBy(actor));
      return actor.boxing().reduce() == proto::Boxing::NONE ? written : MembersOf(actor) * written;
    }
    std::vector<double> inputs;
    for (const int id : DataInputs(plan_, program_, actor)) {
      ASSIGN_OR_RETURN(const double bytes, BytesOf(id));
      inputs.push_back(bytes);
    }
    double first_output = 0;
    if (actor.output_size() > 0) {
      ASSIGN_OR_RETURN(first_output, BytesOf(actor.output(0)));
    }
    return BytesRead(actor.kernel(), std::move(inputs), first_output);
  }

  // Bytes over links. An all_reduce goes in a ring; of all others the plan knows.
  absl::StatusOr<double> Received(const proto::Actor& actor) const {
    if (actor.kernel() != "all_reduce") return FindFacts(facts_, actor.id()).bytes_moved();
    ASSIGN_OR_RETURN(const double bytes, BytesWrittenBy(actor));
    return ReceivedBytes("all_reduce", bytes, MembersOf(actor));
  }

  // Whether members are in several processes of CPUs.
  bool IsFar(const proto::Actor& actor, const proto::Cluster& cluster) const {
    return actor.has_exchange() && cluster.device().kind() == proto::Device::CPU &&
           cluster.level_size() > 1 && LevelOf(actor, cluster) > 0;
  }

  int LevelOf(const proto::Actor& actor, const proto::Cluster& cluster) const {
    const proto::Group& group = GroupOf(actor);
    if (group.has_stages()) {
      return LevelOfStages(cluster, mesh_, group.stages().from(), group.stages().to());
    }
    int level = 0;
    for (const int axis : group.axis()) level = std::max(level, LevelOfAxis(cluster, mesh_, axis));
    return level;
  }

  absl::StatusOr<ActorTime> FarSeconds(const proto::Actor& actor, const proto::Cluster& cluster,
                                       const KernelCost& kernels, const FarTraffic* far) const {
    FarTraffic traffic;
    if (far != nullptr) {
      traffic = *far;
    } else {
      ASSIGN_OR_RETURN(traffic.bytes, Received(actor));
      traffic.packets = std::ceil(traffic.bytes / kPacketBytes);
      traffic.flights = kFlights;
      traffic.placed = traffic.bytes;
    }
    ActorTime time{cluster.device().firing_seconds(),
                   LinkSeconds(traffic, LinkOfLevel(cluster, LevelOf(actor, cluster)))};
    ASSIGN_OR_RETURN(CallWork call, CallOf(actor));
    if (actor.boxing().reduce() != proto::Boxing::NONE) {
      call.kernel = "add";
    } else {
      call.kernel = "slice";
      ASSIGN_OR_RETURN(const double written, BytesWrittenBy(actor));
      call.bytes = 2 * std::max(0.0, written - traffic.placed);
      if (call.bytes == 0) return time;
    }
    time.worker += kernels.Seconds(call);
    return time;
  }

  // A kernel that is no primitive of boxing goes once around a ring.
  std::string_view PrimitiveOf(const proto::Actor& actor) const {
    if (GroupOf(actor).has_stages()) return "transfer";
    for (const char* primitive : {"reduce_scatter", "all_reduce", "all_to_all"}) {
      if (actor.kernel() == primitive) return primitive;
    }
    return "all_gather";
  }

  // Of an exchange.
  GroupLinks LinksOf(const proto::Actor& actor, const proto::Cluster& cluster) const {
    const proto::Group& group = GroupOf(actor);
    if (group.has_stages()) {
      return LinksOfStages(cluster, mesh_, group.stages().from(), group.stages().to());
    }
    return LinksOfGroup(cluster, mesh_, {group.axis().begin(), group.axis().end()});
  }

  const proto::Plan& plan_;
  const proto::Program& program_;
  const proto::ProgramFacts& facts_;
  const Mesh mesh_;
};

}  // namespace

absl::StatusOr<CallWork> CallOf(const proto::Plan& plan, const proto::Program& program,
                                const proto::ProgramFacts& facts, const proto::Actor& actor) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(plan.mesh(), "plan"));
  return Costing(plan, program, facts, std::move(mesh)).CallOf(actor);
}

double LinkSeconds(const FarTraffic& traffic, const Link& link) {
  // All that is said before the first packet and after the last.
  const double alone = 2 * link.latency;
  if (traffic.packets == 0) return alone;
  const double there_and_back = 2 * link.latency;
  const double of_packet = traffic.bytes / traffic.packets / link.bandwidth;
  // As fast as the link, or as packets follow each other where few are asked for at once.
  const double in_turn =
      std::ceil(traffic.packets / traffic.flights) * (there_and_back + of_packet);
  return alone + std::max(there_and_back + traffic.bytes / link.bandwidth, in_turn);
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
