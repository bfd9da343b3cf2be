#include "actor_runtime/exec/bound_actor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/plan/places.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

absl::Status Bad(const proto::Actor& actor, absl::string_view what) {
  return InputError(absl::StrCat("plan, actor ", actor.name()), ToStd(what), "compile it again");
}

absl::StatusOr<Port> PortOf(const proto::Register& reg, const StageMesh& mesh, int rank) {
  Port port;
  ASSIGN_OR_RETURN(port.dtype, DTypeFromProto(reg.dtype(), reg.name()));
  ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(reg.layout(), mesh.mesh, reg.name()));
  port.dims = layout.dims;
  port.coordinate = mesh.mesh.CoordinateOf(rank);
  port.slice = SliceOf(layout, mesh.mesh, port.coordinate);
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
  const DeviceMemory* memory;  // null: of another process, or of no interest
  KernelSetup setup;
  BoundActor bound;

  const proto::Register& Reg(int id) const { return *context.net.registers[id].proto; }

  absl::StatusOr<std::byte*> AddressOf(const proto::Register& reg) const {
    return memory == nullptr ? nullptr : memory->Find(reg);
  }

  absl::Status AddInput(int i) {
    const proto::Register& reg = Reg(actor.input(i).register_());
    if (actor.has_exchange() && reg.slot_bytes() == 0) return absl::OkStatus();  // control
    ASSIGN_OR_RETURN(Port port, PortOf(reg, context.mesh, rank));
    ASSIGN_OR_RETURN(std::byte * base, AddressOf(reg));
    if (PlacesOf(reg) > 1) {
      bound.reads_.push_back(
          {base, StrideOf(reg), i, static_cast<int32_t>(bound.in_pointers_.size())});
    }
    setup.in.push_back({std::move(port)});
    bound.in_pointers_.push_back(base);
    return absl::OkStatus();
  }

  absl::Status AddOutput(int o) {
    const proto::Register& reg = Reg(actor.output(o));
    if (actor.has_exchange() && reg.slot_bytes() == 0) return absl::OkStatus();  // control
    ASSIGN_OR_RETURN(Port port, PortOf(reg, context.mesh, rank));
    ASSIGN_OR_RETURN(std::byte * base, AddressOf(reg));
    if (PlacesOf(reg) > 1) {
      bound.writes_.push_back(
          {base, StrideOf(reg), actor.input_size() + o, static_cast<int32_t>(bound.out_.size())});
    }
    setup.out.push_back(std::move(port));
    bound.out_.push_back(base);
    return absl::OkStatus();
  }

  // A call says `accumulate` once for all outputs, so they must agree.
  absl::Status CheckAccumulation() const {
    const proto::Register* first = nullptr;
    for (const int id : actor.output()) {
      const proto::Register& reg = Reg(id);
      if (reg.slot_bytes() == 0) continue;
      if (first == nullptr) first = &reg;
      const bool adds = reg.fill_mode() == proto::Register::ACCUMULATE;
      if (adds != (first->fill_mode() == proto::Register::ACCUMULATE) ||
          (adds && reg.fires_per_fill() != first->fires_per_fill())) {
        return Bad(actor, "adds to some of its outputs and overwrites others");
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddWorkspace() {
    if (!actor.has_workspace()) return absl::OkStatus();
    const proto::Register& reg = Reg(actor.workspace());
    ASSIGN_OR_RETURN(std::byte * base, AddressOf(reg));
    setup.workspace_bytes = reg.slot_bytes();
    bound.call_.workspace = {base, static_cast<size_t>(reg.slot_bytes())};
    return absl::OkStatus();
  }

  absl::Status AddSetup() {
    setup.kind = actor.kernel();
    setup.name = actor.name();
    ASSIGN_OR_RETURN(setup.attrs, AttrsFromProto(actor.attr(), actor.name()));
    setup.mesh = context.mesh.mesh;
    setup.coordinate = context.mesh.mesh.CoordinateOf(rank);
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
    RETURN_IF_ERROR(CheckAccumulation());
    RETURN_IF_ERROR(AddWorkspace());
    return AddSetup();
  }

  absl::StatusOr<BoundActor> Make(ThreadPool* pool) {
    setup.threads = pool->threads();
    bound.call_.pool = pool;
    RETURN_IF_ERROR(AddPorts());
    AddSpans();
    if (!actor.kernel().empty() && !actor.has_exchange()) {
      absl::StatusOr<Kernel> kernel = context.make_kernel(setup);
      if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("actor ", actor.name()));
      bound.kernel_ = *std::move(kernel);
    }
    return std::move(bound);
  }
};

absl::StatusOr<BoundActor> Bind(const BindContext& context, int actor, int rank, ThreadPool* pool) {
  const DeviceMemory* memory = &context.devices[rank - context.ranks.begin];
  return Binder{context, context.net.actor(actor), rank, memory}.Make(pool);
}

absl::StatusOr<ExchangeWork> BindExchange(const BindContext& context,
                                          const std::vector<BoundMember>& members) {
  std::vector<KernelSetup> of_members;
  size_t tensors = 1;
  for (const BoundMember& member : members) {
    Binder binder{context, context.net.actor(member.actor), member.rank, nullptr};
    RETURN_IF_ERROR(binder.AddPorts());
    tensors = std::max({tensors, binder.setup.in.size(), binder.setup.out.size()});
    of_members.push_back(std::move(binder.setup));
  }
  std::vector<std::vector<KernelSetup>> setups(tensors, of_members);
  for (size_t t = 0; t < tensors; ++t) {
    std::vector<Port> sources;
    for (const KernelSetup& member : of_members) {
      if (t < member.in.size()) sources.push_back(member.in[t][0]);
    }
    for (size_t m = 0; m < members.size(); ++m) {
      setups[t][m].in = {sources};
      setups[t][m].out.clear();
      if (t < of_members[m].out.size()) setups[t][m].out = {of_members[m].out[t]};
    }
  }
  return ExchangeWork::Make(setups);
}

}  // namespace oneflow
