#include "actor_runtime/exec/bound_actor.h"

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
  KernelSetup setup;
  BoundActor bound;

  const proto::Register& Reg(int id) const { return *context.net.registers[id].proto; }

  absl::Status AddInput(int i) {
    const proto::Register& reg = Reg(actor.input(i).register_());
    const std::vector<int> along = Ints(actor.input(i).peers().along());
    std::vector<Port>& ports = setup.in.emplace_back();
    for (const int source : context.mesh.PeersOf(rank, reg.stage(), along)) {
      ASSIGN_OR_RETURN(Port port, PortOf(reg, context.mesh, source));
      ASSIGN_OR_RETURN(std::byte * base, context.devices[source].Find(reg));
      if (PlacesOf(reg) > 1) {
        bound.reads_.push_back(
            {base, StrideOf(reg), i, static_cast<int32_t>(bound.in_pointers_.size())});
      }
      ports.push_back(std::move(port));
      bound.in_pointers_.push_back(base);
    }
    return absl::OkStatus();
  }

  absl::Status AddOutput(int o) {
    const proto::Register& reg = Reg(actor.output(o));
    ASSIGN_OR_RETURN(Port port, PortOf(reg, context.mesh, rank));
    ASSIGN_OR_RETURN(std::byte * base, context.devices[rank].Find(reg));
    if (PlacesOf(reg) > 1) {
      bound.writes_.push_back({base, StrideOf(reg), actor.input_size() + o, o});
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
    ASSIGN_OR_RETURN(std::byte * base, context.devices[rank].Find(reg));
    setup.workspace_bytes = reg.slot_bytes();
    bound.call_.workspace = {base, static_cast<size_t>(reg.slot_bytes())};
    return absl::OkStatus();
  }

  absl::Status AddSetup(ThreadPool* pool) {
    setup.kind = actor.kernel();
    setup.name = actor.name();
    ASSIGN_OR_RETURN(setup.attrs, AttrsFromProto(actor.attr(), actor.name()));
    setup.threads = pool->threads();
    setup.mesh = context.mesh.mesh;
    setup.coordinate = context.mesh.mesh.CoordinateOf(rank);
    setup.reduce = actor.boxing().reduce();
    setup.reduce_axes = Ints(actor.boxing().reduce_axis());
    setup.zero_unless_first = Ints(actor.boxing().zero_unless_first());
    setup.fill = actor.boxing().fill();
    bound.call_.pool = pool;
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

  absl::StatusOr<BoundActor> Make(ThreadPool* pool) {
    for (int i = 0; i < actor.input_size(); ++i) RETURN_IF_ERROR(AddInput(i));
    for (int o = 0; o < actor.output_size(); ++o) RETURN_IF_ERROR(AddOutput(o));
    RETURN_IF_ERROR(CheckAccumulation());
    RETURN_IF_ERROR(AddWorkspace());
    RETURN_IF_ERROR(AddSetup(pool));
    AddSpans();
    if (!actor.kernel().empty()) {
      absl::StatusOr<Kernel> kernel = context.make_kernel(setup);
      if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("actor ", actor.name()));
      bound.kernel_ = *std::move(kernel);
    }
    return std::move(bound);
  }
};

absl::StatusOr<BoundActor> Bind(const BindContext& context, int actor, int rank, ThreadPool* pool) {
  return Binder{context, context.net.actor(actor), rank}.Make(pool);
}

}  // namespace oneflow
