#include "oneflow_core/verify/verify_plan.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/train/learning_rate.h"
#include "oneflow_core/verify/checks.h"

namespace oneflow {
namespace {

constexpr int kMaxSlots = 1 << 17;
constexpr int kMostLaunchQueue = 1024;  // a device makes an event for each

absl::StatusOr<Mesh> CheckedMesh(const proto::Plan& plan) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(plan.mesh(), "plan"));
  if (plan.stage_axis() != mesh.stage_axis()) {
    return DamagedPlan("plan", absl::StrCat("stage axis is ", plan.stage_axis(), ", the mesh says ",
                                            mesh.stage_axis()));
  }
  return mesh;
}

absl::Status CheckArena(const proto::StageMemory& m, int stage, proto::MemoryKind kind) {
  const std::string where = absl::StrCat("plan, memory of stage ", stage);
  if (m.stage() != stage) return DamagedPlan(where, absl::StrCat("is of stage ", m.stage()));
  if (m.kind() != kind) {
    return DamagedPlan(where,
                       absl::StrCat("is of kind ", m.kind(), ", where the plan needs kind ", kind));
  }
  const int64_t parts[] = {m.persistent_bytes(), m.register_bytes()};
  int64_t sum = 0;
  for (int64_t part : parts) {
    if (part < 0 || part % kAlign != 0 || part > (int64_t{1} << 50)) {
      return DamagedPlan(where, absl::StrCat("a region of ", part, " bytes"));
    }
    sum += part;
  }
  if (sum != m.arena_bytes()) {
    return DamagedPlan(
        where, absl::StrCat("regions sum to ", sum, " bytes, the arena has ", m.arena_bytes()));
  }
  return absl::OkStatus();
}

// The bytes [begin, end) of the arena that a register may use.
absl::Status CheckRegister(const proto::Register& r, const Mesh& mesh, int64_t begin, int64_t end) {
  const std::string where = absl::StrCat("plan, register ", r.id(), " (", r.name(), ")");
  ASSIGN_OR_RETURN(const Layout layout, LayoutFromProto(r.layout(), mesh, where));
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(r.dtype(), where));
  for (const Layout::Split& split : layout.splits) {
    if (split.axis == mesh.stage_axis()) return DamagedPlan(where, "is split by the stage axis");
  }
  const int64_t buffers = BufferCount(r), stride = BufferStride(r);
  if (r.slots() < 1 || r.buffers() < 0 || buffers < r.slots() || buffers > kMaxSlots) {
    return DamagedPlan(where, absl::StrCat(r.slots(), " slots in ", r.buffers(), " buffers"));
  }
  if (r.first_buffer() < 0 || r.first_buffer() >= buffers) {
    return DamagedPlan(where, absl::StrCat("begins at buffer ", r.first_buffer(), " of ", buffers));
  }
  if (r.fill_mode() == proto::Register::UPDATE && buffers != 1) {
    return DamagedPlan(where, absl::StrCat("updated in place, but has ", r.slots(), " slots in ",
                                           buffers, " buffers"));
  }
  if (r.slot_bytes() == 0) return absl::OkStatus();  // control: order only
  if (!proto::Register::Mode_IsValid(r.fill_mode())) {
    return DamagedPlan(where,
                       absl::StrCat("is filled in mode ", r.fill_mode(), ", which is not known"));
  }
  if (r.fill_mode() == proto::Register::FRESH && r.fires_per_fill() > 1) {
    return DamagedPlan(where,
                       absl::StrCat("takes ", r.fires_per_fill(),
                                    " firings a fill, each of which overwrites the ones before"));
  }
  const int64_t needed = MaxElements(layout, mesh) * static_cast<int64_t>(ElementBytes(dtype));
  if (r.slot_bytes() < needed || r.slot_bytes() % kAlign != 0) {
    return DamagedPlan(where, absl::StrCat("a slot of ", r.slot_bytes(), " bytes for ", needed));
  }
  if (r.stride() < 0 || stride < r.slot_bytes() || stride % kAlign != 0) {
    return DamagedPlan(
        where, absl::StrCat("a buffer every ", r.stride(), " bytes for slots of ", r.slot_bytes()));
  }
  if (r.offset() % kAlign != 0 || r.offset() < begin || r.offset() > end ||
      r.slot_bytes() > end - r.offset() ||
      (buffers > 1 && stride > (end - r.offset() - r.slot_bytes()) / (buffers - 1))) {
    return DamagedPlan(where,
                       absl::StrCat(buffers, " buffers of ", r.slot_bytes(), " bytes at offset ",
                                    r.offset(), " leave the region [", begin, ", ", end, ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckPersistent(const proto::Plan& plan, const Mesh& mesh) {
  for (int i = 0; i < plan.persistent_size(); ++i) {
    const proto::Register& r = plan.persistent(i);
    const std::string where = absl::StrCat("plan, register ", r.id(), " (", r.name(), ")");
    if (r.stage() < 0 || r.stage() >= mesh.stages())
      return DamagedPlan(where, "its stage does not exist");
    const int arena = ArenaIndex(r, mesh.stages());
    if (!proto::MemoryKind_IsValid(r.memory_kind()) || arena >= plan.memory_size()) {
      return DamagedPlan(where, absl::StrCat("is in memory of kind ", r.memory_kind(),
                                             ", of which there is no arena"));
    }
    RETURN_IF_ERROR(CheckRegister(r, mesh, 0, plan.memory(arena).persistent_bytes()));
    // Readers between runs find the newest fill of a variable in the last slot.
    if (BufferCount(r) != r.slots() || HasInterleavedBuffers(r) || r.first_buffer() != 0) {
      return DamagedPlan(where, "outlives programs, but its buffers are not contiguous");
    }
  }
  // Persistent registers never share bytes, so sorting by offset finds every overlap.
  std::vector<const proto::Register*> sorted;
  for (const proto::Register& r : plan.persistent()) {
    if (r.slot_bytes() > 0) sorted.push_back(&r);
  }
  std::sort(sorted.begin(), sorted.end(), [&mesh](const auto* a, const auto* b) {
    return std::tuple(ArenaIndex(*a, mesh.stages()), a->offset()) <
           std::tuple(ArenaIndex(*b, mesh.stages()), b->offset());
  });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const proto::Register &a = *sorted[i - 1], &b = *sorted[i];
    if (ArenaIndex(a, mesh.stages()) == ArenaIndex(b, mesh.stages()) &&
        BuffersEnd(a) > b.offset()) {
      return DamagedPlan(
          "plan", absl::StrCat("persistent registers ", a.name(), " and ", b.name(), " overlap"));
    }
  }
  return absl::OkStatus();
}

// A checkpoint has one entry for a name, and a register has the contents of one variable.
absl::Status CheckVariables(const proto::Plan& plan, const Mesh& mesh) {
  std::set<std::string_view> names;
  std::set<int> held;
  for (const proto::Variable& v : plan.variable()) {
    const std::string where = absl::StrCat("plan, variable ", v.name());
    if (v.name().empty()) return DamagedPlan(where, "has no name");
    if (!names.insert(v.name()).second) return DamagedPlan(where, "stands twice");
    RETURN_IF_ERROR(LayoutFromProto(v.layout(), mesh, where).status());
    if (v.register__size() == 0) return DamagedPlan(where, "has no register");
    for (int id : v.register_()) {
      if (id < 0 || id >= plan.persistent_size()) {
        return DamagedPlan(where, absl::StrCat("register ", id, " does not exist"));
      }
      if (!held.insert(id).second) {
        return DamagedPlan(where, absl::StrCat("register ", plan.persistent(id).name(),
                                               " holds another variable, or stands twice"));
      }
      const proto::Register& r = plan.persistent(id);
      if (!std::equal(r.layout().dim().begin(), r.layout().dim().end(), v.layout().dim().begin(),
                      v.layout().dim().end()) ||
          r.dtype() != v.dtype()) {
        return DamagedPlan(where,
                           absl::StrCat("register ", r.name(), " has another shape or type"));
      }
    }
  }
  return absl::OkStatus();
}

// One program's check: holds what its parts share.
class ProgramTypes {
 public:
  ProgramTypes(const PlanNet& net, Mesh mesh)
      : net_(net),
        mesh_(std::move(mesh)),
        where_(absl::StrCat("plan, program ", net.program->name())),
        boxing_(mesh_) {}

  absl::Status Check() {
    if (net_.program->micro_batches() < 1) return DamagedPlan(where_, "has no micro-batch");
    if (net_.program->steps_a_round() < 0)
      return DamagedPlan(where_, "has less than no steps a round");
    for (const proto::Register& r : net_.program->register_()) {
      if (!StageExists(r.stage()))
        return DamagedPlan(where_, absl::StrCat("register ", r.name(), ": no such stage"));
      const int arena = ArenaIndex(r, mesh_.stages());
      if (!proto::MemoryKind_IsValid(r.memory_kind()) || arena >= net_.plan->memory_size()) {
        return DamagedPlan(where_, absl::StrCat("register ", r.name(), " is in memory of kind ",
                                                r.memory_kind(), ", of which there is no arena"));
      }
      const proto::StageMemory& m = net_.plan->memory(arena);
      RETURN_IF_ERROR(Annotate(
          CheckRegister(r, mesh_, m.persistent_bytes(), m.persistent_bytes() + m.register_bytes()),
          where_));
      if (r.slot_bytes() == 0 || r.fill_mode() != proto::Register::UPDATE) continue;
      return DamagedPlan(where_,
                         absl::StrCat("register ", r.name(), " is updated in place, but ends with ",
                                      "the program"));
    }
    for (const proto::Actor& actor : net_.program->actor()) RETURN_IF_ERROR(CheckActor(actor));
    RETURN_IF_ERROR(CheckStreams());
    RETURN_IF_ERROR(VerifyIssue(net_));
    RETURN_IF_ERROR(CheckMemoryKinds());
    RETURN_IF_ERROR(VerifyRates(net_));
    return CheckBuffers();
  }

 private:
  // Interleaved buffers must all be written in one step, because the proof plays two.
  absl::Status CheckBuffers() const {
    for (const NetRegister& r : net_.registers) {
      if (r.writer < 0 || !HasInterleavedBuffers(*r.proto)) continue;
      const int64_t fills = net_.actors[r.writer].firings / r.proto->fires_per_fill();
      if (BufferCount(*r.proto) <= fills) continue;
      return DamagedPlan(where_,
                         absl::StrCat("register ", r.proto->name(), ": ", BufferCount(*r.proto),
                                      " buffers, but ", fills, " fills a step"));
    }
    return absl::OkStatus();
  }

  bool StageExists(int stage) const { return stage >= 0 && stage < mesh_.stages(); }

  absl::Status CheckActor(const proto::Actor& actor) {
    const std::string where = absl::StrCat(where_, ", actor ", actor.name());
    if (!StageExists(actor.stage())) return DamagedPlan(where, "its stage does not exist");
    if (actor.has_workspace()) {
      RETURN_IF_ERROR(CheckWorkspace(net_.registers[actor.workspace()], actor, where));
    }
    for (const proto::Input& input : actor.input())
      RETURN_IF_ERROR(CheckInput(actor, input, where));
    for (int id : actor.output()) {
      if (net_.registers[id].proto->stage() != actor.stage()) {
        return DamagedPlan(
            where, absl::StrCat("writes ", net_.registers[id].proto->name(), " of another stage"));
      }
    }
    RETURN_IF_ERROR(CheckAccumulation(actor, where));
    if (actor.has_exchange()) return VerifyExchange(net_, actor, where, &boxing_);
    if (!actor.has_boxing()) return absl::OkStatus();
    // Beside those that keep an order.
    std::vector<const proto::Register*> from, to;
    for (const proto::Input& input : actor.input()) AddTensor(input.register_(), &from);
    for (const int id : actor.output()) AddTensor(id, &to);
    if (from.size() != 1 || to.size() != 1) {
      return DamagedPlan(where, "a boxing has one input and one output");
    }
    return boxing_.Check(actor, *from[0], *to[0], {}, where);
  }

  void AddTensor(int id, std::vector<const proto::Register*>* tensors) const {
    const proto::Register& r = *net_.registers[id].proto;
    if (!IsControl(r)) tensors->push_back(&r);
  }

  // A kernel is told once for all outputs whether to add, so they must agree: but for those that it
  // overwrites whatever it is told, of which verify_kernels makes sure that they are not to add up.
  absl::Status CheckAccumulation(const proto::Actor& actor, const std::string& where) const {
    const OpDef* def = FindOpDef(actor.kernel());
    const proto::Register* first = nullptr;
    for (int i = def == nullptr ? 0 : def->fresh; i < actor.output_size(); ++i) {
      const proto::Register& r = *net_.registers[actor.output(i)].proto;
      if (r.slot_bytes() == 0) continue;
      if (first == nullptr) first = &r;
      const bool adds = r.fill_mode() == proto::Register::ACCUMULATE;
      if (adds == (first->fill_mode() == proto::Register::ACCUMULATE) &&
          (!adds || r.fires_per_fill() == first->fires_per_fill())) {
        continue;
      }
      return DamagedPlan(where, "adds to some of its outputs and overwrites others");
    }
    return absl::OkStatus();
  }

  // Scratch is at rest between firings: nobody reads it, and it has one buffer.
  absl::Status CheckWorkspace(const NetRegister& r, const proto::Actor& actor,
                              const std::string& where) const {
    const auto bad = [&](const std::string& what) {
      return DamagedPlan(where, absl::StrCat("its workspace ", r.proto->name(), what));
    };
    if (r.persistent) return bad(" outlives the program");
    if (r.proto->stage() != actor.stage()) return bad(" is of another stage");
    if (!r.readers.empty()) return bad(" is read");
    if (BufferCount(*r.proto) != 1) return bad(" has several buffers");
    if (r.fires_per_fill != 1) return bad(" takes several firings a fill");
    return absl::OkStatus();
  }

  absl::Status CheckInput(const proto::Actor& actor, const proto::Input& input,
                          const std::string& where) {
    const NetRegister& r = net_.registers[input.register_()];
    if (r.writer < 0 && !r.persistent) {
      return DamagedPlan(where, absl::StrCat("reads ", r.proto->name(), ", which nobody writes"));
    }
    if (input.initial_fills() > 0 && !r.persistent && r.proto->slot_bytes() > 0) {
      return DamagedPlan(where, absl::StrCat("reads ", r.proto->name(), " before its first fill"));
    }
    if (r.proto->stage() != actor.stage()) {
      return DamagedPlan(where, absl::StrCat("reads ", r.proto->name(), " of another stage"));
    }
    return absl::OkStatus();
  }

  // Actors of a device access its own memory only, what the host computes for it the host's; copies
  // connect the two. The host's own actors read and write data: those of a GPU in the host's
  // memory, those of a CPU device in both. A GPU copies on any of its streams; the worker of a CPU
  // device would be the one that copies, so there copies stand apart.
  absl::Status CheckMemoryKinds() const {
    const bool cpu = net_.plan->device_kind() == proto::CPU;
    for (const proto::Actor& actor : net_.program->actor()) {
      const proto::Stream::Kind stream = net_.streams[net_.actors[actor.id()].stream].proto->kind();
      const std::string where = absl::StrCat(where_, ", actor ", actor.name());
      const bool copies = actor.kernel() == "copy_in" || actor.kernel() == "copy_out";
      if (copies ? stream != proto::Stream::COPY && (cpu || stream != proto::Stream::COMPUTE)
                 : stream == proto::Stream::COPY && !actor.kernel().empty()) {
        return DamagedPlan(where,
                           absl::StrCat("kernel ", actor.kernel(), " stands on a stream of kind ",
                                        proto::Stream::Kind_Name(stream)));
      }
      if (stream == proto::Stream::HOST && cpu) continue;
      const bool host = stream == proto::Stream::HOST || stream == proto::Stream::HOST_COMPUTE;
      const bool reads_host = copies ? actor.kernel() == "copy_in" : host;
      const bool writes_host = copies ? actor.kernel() == "copy_out" : host;
      for (const proto::Input& input : actor.input()) {
        RETURN_IF_ERROR(CheckMemoryKind(input.register_(), reads_host, where));
      }
      for (const int id : actor.output()) {
        RETURN_IF_ERROR(CheckMemoryKind(id, writes_host, where));
      }
      if (actor.has_workspace()) {
        RETURN_IF_ERROR(CheckMemoryKind(actor.workspace(), host, where));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckMemoryKind(int id, bool host, const std::string& where) const {
    const proto::Register& r = *net_.registers[id].proto;
    if (r.slot_bytes() == 0 || (r.memory_kind() == proto::HOST) == host) {
      return absl::OkStatus();
    }
    return DamagedPlan(where, absl::StrCat("touches ", r.name(), ", which is in memory of kind ",
                                           proto::MemoryKind_Name(r.memory_kind())));
  }

  absl::Status CheckStreams() {
    for (const proto::Segment& segment : net_.program->segment()) {
      if (!StageExists(segment.stage()))
        return DamagedPlan(where_, absl::StrCat("segment ", segment.name(), ": no such stage"));
      for (int a : segment.actor()) {
        if (net_.actor(a).stage() != segment.stage()) {
          return DamagedPlan(where_, absl::StrCat("segment ", segment.name(), " holds ",
                                                  net_.actor(a).name(), " of another stage"));
        }
        if (net_.actors[a].firings == 0) {
          return DamagedPlan(where_,
                             absl::StrCat("actor ", net_.actor(a).name(), " stands in no order"));
        }
      }
    }
    for (const NetStream& stream : net_.streams) {
      if (!StageExists(stream.proto->stage()))
        return DamagedPlan(where_,
                           absl::StrCat("stream ", stream.proto->name(), ": no such stage"));
      if (!proto::Stream::Kind_IsValid(stream.proto->kind())) {
        return DamagedPlan(where_, absl::StrCat("stream ", stream.proto->name(), " is of kind ",
                                                stream.proto->kind(), ", which is not known"));
      }
      for (const proto::OrderRun& run : stream.proto->order()) {
        for (int segment : run.segment()) {
          if (net_.program->segment(segment).stage() == stream.proto->stage()) continue;
          return DamagedPlan(
              where_, absl::StrCat("stream ", stream.proto->name(), " of stage ",
                                   stream.proto->stage(), " orders a segment of another stage"));
        }
      }
    }
    return absl::OkStatus();
  }

  const PlanNet& net_;
  const Mesh mesh_;
  const std::string where_;
  BoxingCheck boxing_;
};

}  // namespace

absl::Status VerifyPlanTypes(const proto::Plan& plan) {
  if (plan.version() != kPlanVersion) {
    return InputError(
        "plan",
        absl::StrCat("format version ", plan.version(), ", this build reads ", kPlanVersion),
        "compile it again");
  }
  ASSIGN_OR_RETURN(const Mesh mesh, CheckedMesh(plan));
  if (!proto::DeviceKind_IsValid(plan.device_kind())) {
    return DamagedPlan("plan", absl::StrCat("devices are of kind ", plan.device_kind()));
  }
  const bool host = plan.device_kind() != proto::CPU || HasHostArenas(plan);
  if (plan.memory_size() != (host ? 2 : 1) * mesh.stages()) {
    return DamagedPlan("plan",
                       absl::StrCat(plan.memory_size(), " arenas for ", mesh.stages(), " stages"));
  }
  for (int arena = 0; arena < plan.memory_size(); ++arena) {
    RETURN_IF_ERROR(CheckArena(plan.memory(arena), arena % mesh.stages(),
                               arena < mesh.stages() ? proto::DEVICE : proto::HOST));
  }
  if (plan.kernel_threads() < 1 || plan.kernel_threads() > kMaxKernelThreads) {
    return DamagedPlan("plan", absl::StrCat("kernels have ", plan.kernel_threads(), " threads"));
  }
  if (plan.launch_queue() < 1 || plan.launch_queue() > kMostLaunchQueue) {
    return DamagedPlan("plan", absl::StrCat("a launch queue of ", plan.launch_queue(), " firings"));
  }
  RETURN_IF_ERROR(VerifyGroups(plan, mesh));
  RETURN_IF_ERROR(CheckPersistent(plan, mesh));
  RETURN_IF_ERROR(CheckVariables(plan, mesh));
  std::set<std::string> names;
  for (const proto::Program& program : plan.program()) {
    if (!names.insert(program.name()).second)
      return DamagedPlan("plan", absl::StrCat("two programs ", program.name()));
  }
  return absl::OkStatus();
}

absl::Status VerifyProgramTypes(const PlanNet& net) {
  ASSIGN_OR_RETURN(Mesh mesh, MeshFromProto(net.plan->mesh(), "plan"));
  return ProgramTypes(net, std::move(mesh)).Check();
}

absl::Status VerifyTypes(const proto::Plan& plan) {
  RETURN_IF_ERROR(VerifyPlanTypes(plan));
  if (plan.has_optimizer()) {
    RETURN_IF_ERROR(CheckOptimizer(plan.optimizer(), "plan, optimizer."));
  }
  for (const proto::Program& program : plan.program()) {
    ASSIGN_OR_RETURN(const PlanNet net, MakePlanNet(plan, program));
    RETURN_IF_ERROR(VerifyProgramTypes(net));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
