#include "actor_runtime/exec/bound_actor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/plan/exchange_window.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

absl::StatusOr<Port> MakePort(const proto::Register& reg, const StageMesh& mesh, int rank) {
  Port port;
  ASSIGN_OR_RETURN(port.dtype, DTypeFromProto(reg.dtype(), reg.name()));
  ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(reg.layout(), mesh.mesh, reg.name()));
  port.dims = layout.dims;
  port.coordinate = mesh.mesh.RankToCoordinate(rank);
  port.slice = LocalSlice(layout, mesh.mesh, port.coordinate);
  return port;
}

std::vector<int> Ints(const google::protobuf::RepeatedField<int32_t>& field) {
  return {field.begin(), field.end()};
}

}  // namespace

// Fills in a BoundActor and the setup of its kernel, port by port.
struct Binder {
  const BindContext& context;
  const proto::Actor& actor;
  const int rank;
  const DeviceMemory* memory;  // null: of another process, or not needed
  KernelSetup setup;
  BoundActor bound;
  std::vector<const proto::Register*> ins = {}, outs = {};  // with data

  const proto::Register& Reg(int id) const { return *context.net.registers[id].proto; }

  // A token register only keeps an order. An exchange leaves out its empty tensors, too.
  bool IsToken(const proto::Register& reg) const {
    return IsControl(reg) || (actor.has_exchange() && reg.slot_bytes() == 0);
  }

  absl::StatusOr<std::byte*> FindAddress(const proto::Register& reg) const {
    return memory == nullptr ? nullptr : memory->Find(reg);
  }

  absl::Status AddInput(int i) {
    const proto::Register& reg = Reg(actor.input(i).register_());
    if (IsToken(reg)) return absl::OkStatus();
    ASSIGN_OR_RETURN(Port port, MakePort(reg, context.mesh, rank));
    ASSIGN_OR_RETURN(std::byte * base, FindAddress(reg));
    if (BufferCount(reg) > 1) {
      bound.reads_.push_back(
          {base, BufferStride(reg), i, static_cast<int32_t>(bound.in_pointers_.size())});
    }
    setup.in.push_back({std::move(port)});
    ins.push_back(&reg);
    bound.in_pointers_.push_back(base);
    return absl::OkStatus();
  }

  absl::Status AddOutput(int o) {
    const proto::Register& reg = Reg(actor.output(o));
    if (IsToken(reg)) return absl::OkStatus();
    ASSIGN_OR_RETURN(Port port, MakePort(reg, context.mesh, rank));
    ASSIGN_OR_RETURN(std::byte * base, FindAddress(reg));
    if (BufferCount(reg) > 1) {
      bound.writes_.push_back({base, BufferStride(reg), actor.input_size() + o,
                               static_cast<int32_t>(bound.out_.size())});
    }
    setup.out.push_back(std::move(port));
    outs.push_back(&reg);
    bound.out_.push_back(base);
    return absl::OkStatus();
  }

  absl::Status AddWorkspace() {
    if (!actor.has_workspace()) return absl::OkStatus();
    const proto::Register& reg = Reg(actor.workspace());
    ASSIGN_OR_RETURN(std::byte * base, FindAddress(reg));
    setup.workspace_bytes = reg.slot_bytes();
    bound.call_.workspace = {base, static_cast<size_t>(reg.slot_bytes())};
    return absl::OkStatus();
  }

  absl::Status AddSetup() {
    setup.kind = actor.kernel();
    setup.name = actor.name();
    ASSIGN_OR_RETURN(setup.attrs, AttrsFromProto(actor.attr(), actor.name()));
    setup.mesh = context.mesh.mesh;
    setup.coordinate = context.mesh.mesh.RankToCoordinate(rank);
    setup.reduce = actor.boxing().reduce();
    setup.reduce_axes = Ints(actor.boxing().reduce_axis());
    setup.zero_unless_first = Ints(actor.boxing().zero_unless_first());
    setup.fill = actor.boxing().fill();
    return absl::OkStatus();
  }

  void AddSpans() {
    const std::byte* const* pointer = bound.in_pointers_.data();
    for (const std::vector<Port>& ports : setup.in) {
      bound.in_.push_back({pointer, ports.size()});
      pointer += ports.size();
    }
    bound.call_.in = bound.in_;
    bound.call_.out = bound.out_;
  }

  absl::Status AddPorts() {
    for (int i = 0; i < actor.input_size(); ++i) RETURN_IF_ERROR(AddInput(i));
    for (int o = 0; o < actor.output_size(); ++o) RETURN_IF_ERROR(AddOutput(o));
    RETURN_IF_ERROR(AddWorkspace());
    return AddSetup();
  }

  absl::StatusOr<BoundActor> Make(const ActorHome& home) {
    setup.threads = home.pool->threads();
    bound.call_.pool = home.pool;
    if (home.stream != nullptr) bound.call_.stream = home.stream->handle();
    RETURN_IF_ERROR(AddPorts());
    AddSpans();
    if (!actor.kernel().empty() && !actor.has_exchange()) {
      absl::StatusOr<Kernel> kernel = home.make_kernel(setup);
      if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("actor ", actor.name()));
      bound.kernel_ = *std::move(kernel);
    }
    return std::move(bound);
  }
};

absl::StatusOr<BoundActor> Bind(const BindContext& context, int actor, int rank,
                                const ActorHome& home) {
  const DeviceMemory* memory = &context.devices[rank - context.ranks.begin];
  return Binder{context, context.net.actor(actor), rank, memory}.Make(home);
}

std::vector<BoundMember> FindMembers(const ActorNet& net, size_t exchange) {
  const NetExchange& of = net.exchanges[exchange];
  std::vector<BoundMember> members;
  for (const int32_t rank : net.groups[of.group].ranks) {
    members.push_back({of.actors[!members.empty()], rank});
  }
  return members;
}

namespace {

// The split of an exchange's tensors into pieces if members are elsewhere: by tensor, the most
// elements of a piece. `binders`: of the members.
absl::StatusOr<std::vector<int64_t>> CountMostPieces(const std::vector<Binder>& binders,
                                                     const Mesh& mesh) {
  // In a pair the first member sends and the last receives; else all members do the same.
  const Binder &source = binders.front(), &reader = binders.back();
  std::vector<int64_t> most;
  for (size_t t = 0; t < source.ins.size(); ++t) {
    ASSIGN_OR_RETURN(const ExchangeWindow window,
                     MakeWindow(reader.actor.boxing(), *source.ins[t], *reader.outs[t], mesh));
    most.push_back(window.piece);
  }
  return most;
}

// True if a member may accumulate into its outputs.
bool Adds(const Binder& binder) {
  return !binder.outs.empty() && binder.outs[0]->fill_mode() == proto::Register::ACCUMULATE;
}

}  // namespace

absl::StatusOr<ExchangeWork> BindExchange(const BindContext& context,
                                          const std::vector<BoundMember>& members,
                                          Carrier& carrier) {
  std::vector<Binder> binders;
  PlannedExchange exchange;
  for (const BoundMember& member : members) {
    Binder& binder = binders.emplace_back(
        Binder{context, context.net.actor(member.actor), member.rank, nullptr});
    RETURN_IF_ERROR(binder.AddPorts());
    const bool near = context.ranks.Contains(member.rank), adds = Adds(binder);
    Device* const device = near && !context.devices.empty()
                               ? context.devices[member.rank - context.ranks.begin].device()
                               : nullptr;
    exchange.members.push_back({std::move(binder.setup), adds, device});
    exchange.far.near.push_back(near ? 1 : 0);
    exchange.far.adds |= adds;
  }
  exchange.count_most = [&] { return CountMostPieces(binders, context.mesh.mesh); };
  return carrier.Bind(exchange);
}

}  // namespace oneflow
