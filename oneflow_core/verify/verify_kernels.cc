#include "oneflow_core/verify/verify_plan.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/workspace.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "oneflow_core/verify/checks.h"

namespace oneflow {
namespace {

// Which registers hold which variable, by name.
using Holdings = std::set<std::pair<std::string_view, int>>;

Holdings FindHoldings(const proto::Plan& plan) {
  Holdings holdings;
  for (const proto::Variable& v : plan.variable()) {
    for (int id : v.register_()) holdings.emplace(v.name(), id);
  }
  return holdings;
}

// One actor as the only op of a graph, with the layouts of its tensors.
class ActorOp {
 public:
  // With all that the actor reads and writes.
  ActorOp(const PlanNet& net, const Mesh& mesh, const Holdings& holdings, const proto::Actor& actor,
          std::string where)
      : net_(net), mesh_(mesh), holdings_(holdings), actor_(actor), where_(std::move(where)) {
    for (const proto::Input& input : actor.input()) AddRegister(input.register_(), &inputs_);
    for (const int id : actor.output()) AddRegister(id, &outputs_);
  }
  // An exchange of several tensors is an op of each.
  ActorOp(const PlanNet& net, const Mesh& mesh, const Holdings& holdings, const proto::Actor& actor,
          std::string where, int input, int output)
      : ActorOp(net, mesh, holdings, actor, std::move(where)) {
    inputs_ = {input};
    outputs_ = {output};
  }

  absl::Status Check() {
    if (actor_.kernel().empty()) return CheckOrderOnly();
    host_ = FindHostKernel(actor_.kernel());
    ASSIGN_OR_RETURN(const AttrMap attrs, AttrsFromProto(actor_.attr(), where_));
    const std::string form = FormName(actor_.kernel(), attrs);
    def_ = host_ != nullptr ? host_ : FindOpDef(form);
    // Kinds without a kernel stand in graphs alone, but for exchanges.
    if (def_ == nullptr || (!def_->on_cpu && !IsCollective(actor_.kernel()))) {
      return DamagedPlan(where_, absl::StrCat("there is no kernel \"", form, "\""));
    }
    RETURN_IF_ERROR(Build());
    RETURN_IF_ERROR(CheckForm());
    if (host_ != nullptr) return CheckHost();
    RETURN_IF_ERROR(CheckInferred(*def_));
    RETURN_IF_ERROR(CheckRows());
    return CheckWorkspaceBytes();
  }

  // That the kernel does the work of the facts. Requires that it has been checked.
  absl::Status CheckWork(const proto::ActorFacts& facts) const {
    if (host_ != nullptr || def_ == nullptr || facts.flops() <= 0) return absl::OkStatus();
    const auto b = [](const auto& tensors) { return std::vector<Sbp>(tensors.size()); };
    int64_t devices = 1;  // that share it
    for (int axis = 0; axis < static_cast<int>(mesh_.axes.size()); ++axis) {
      if (!Fits({b(op().inputs), b(op().outputs)}, axis)) devices *= mesh_.axes[axis].size;
    }
    const double flops = def_->flops(view()) / static_cast<double>(devices);
    if (flops == facts.flops()) return absl::OkStatus();
    return DamagedPlan(where_, absl::StrCat("does ", flops, " operations, not ", facts.flops()));
  }

  // True if a row of the table lets what it writes to `reg` be `partial` along the axis. Requires
  // that it has been checked. Data from the host may be anything.
  bool MayWrite(int reg, Sbp partial, int axis) const {
    if (host_ != nullptr) return true;
    const std::vector<Signature> rows = def_->signatures(view());
    return std::any_of(rows.begin(), rows.end(), [&](const Signature& row) {
      if (!Fits(row, axis)) return false;
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (outputs_[i] == reg && row.out[i] == partial) return true;
      }
      return false;
    });
  }

 private:
  const proto::Register& Reg(int id) const { return *net_.registers[id].proto; }
  void AddRegister(int id, std::vector<int>* registers) const {
    if (!IsControl(Reg(id))) registers->push_back(id);
  }
  const Op& op() const { return graph_.ops[0]; }
  OpView view() const { return {graph_, graph_.ops[0]}; }

  absl::Status CheckOrderOnly() const {
    const auto is_control = [&](int id) { return Reg(id).slot_bytes() == 0; };
    bool control = !actor_.has_boxing() && !actor_.has_exchange();
    for (const proto::Input& input : actor_.input()) control &= is_control(input.register_());
    for (const int id : actor_.output()) control &= is_control(id);
    return control ? absl::OkStatus() : DamagedPlan(where_, "has no kernel, but touches data");
  }

  absl::StatusOr<TensorId> AddTensor(int id) {
    const proto::Register& r = Reg(id);
    ASSIGN_OR_RETURN(Layout layout, LayoutFromProto(r.layout(), mesh_, where_));
    for (size_t i = 1; i < layout.splits.size(); ++i) {
      if (layout.splits[i].axis < layout.splits[i - 1].axis) {
        return DamagedPlan(where_,
                           absl::StrCat(r.name(), " is not split in the order of the mesh axes"));
      }
    }
    Tensor tensor{.name = r.name(), .shape = Shape(layout.dims), .producer = 0};
    ASSIGN_OR_RETURN(tensor.dtype, DTypeFromProto(r.dtype(), where_));
    const int64_t bytes =
        MaxElements(layout, mesh_) * static_cast<int64_t>(ElementBytes(tensor.dtype));
    const int64_t slot = (bytes + kAlign - 1) / kAlign * kAlign;
    if (r.slot_bytes() != slot) {
      return DamagedPlan(where_, absl::StrCat(r.name(), " has slots of ", r.slot_bytes(),
                                              " bytes, its largest part needs ", slot));
    }
    layouts_.push_back(std::move(layout));
    graph_.tensors.push_back(std::move(tensor));
    return static_cast<TensorId>(graph_.tensors.size()) - 1;
  }

  // Each of the outputs that are updated, at most once.
  absl::Status CheckApart(const std::vector<int64_t>& apart) const {
    for (size_t i = 0; i < apart.size(); ++i) {
      const bool updated =
          apart[i] >= 0 && apart[i] < std::min<int64_t>(def_->updates, std::ssize(outputs_));
      if (!updated) {
        return DamagedPlan(where_,
                           absl::StrCat("updates no output ", apart[i], " of attribute \"apart\""));
      }
      if (std::find(apart.begin(), apart.begin() + static_cast<int64_t>(i), apart[i]) !=
          apart.begin() + static_cast<int64_t>(i)) {
        return DamagedPlan(where_,
                           absl::StrCat("attribute \"apart\" names output ", apart[i], " twice"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Build() {
    Op op{.name = actor_.name(), .kind = actor_.kernel()};
    ASSIGN_OR_RETURN(op.attrs, AttrsFromProto(actor_.attr(), where_));
    const std::vector<int64_t> apart = Ints(op, "apart");
    RETURN_IF_ERROR(CheckApart(apart));
    const size_t others = inputs_.size() - std::min(inputs_.size(), apart.size());
    for (const int id : outputs_) {
      ASSIGN_OR_RETURN(const TensorId t, AddTensor(id));
      op.outputs.push_back(t);
      const auto index = static_cast<int>(op.outputs.size()) - 1;
      if (index >= def_->updates) continue;
      // Updated in place, or the next value beside the old one.
      const auto read = std::find(apart.begin(), apart.end(), index);
      if (read != apart.end()) {
        const size_t input = others + (read - apart.begin());
        if (input >= inputs_.size() || Reg(id).fill_mode() != proto::Register::FRESH ||
            Reg(id).slots() != 1 || inputs_[input] == id) {
          return DamagedPlan(where_, absl::StrCat("does not write the next value of ",
                                                  Reg(id).name(), " beside the old one"));
        }
        ASSIGN_OR_RETURN(const TensorId old, AddTensor(inputs_[input]));
        op.inputs.push_back(old);
        continue;
      }
      if (Reg(id).fill_mode() != proto::Register::UPDATE) {
        return DamagedPlan(where_,
                           absl::StrCat("updates ", Reg(id).name(), ", which is filled afresh"));
      }
      op.inputs.push_back(t);
    }
    for (size_t i = 0; i < others; ++i) {
      ASSIGN_OR_RETURN(const TensorId t, AddTensor(inputs_[i]));
      op.inputs.push_back(t);
    }
    graph_.ops.push_back(std::move(op));
    return absl::OkStatus();
  }

  // The next version of a variable goes where the newest is read from, into another slot.
  absl::Status CheckRenewed() const {
    for (int i = def_->updates; i < def_->updates + def_->versioned_updates; ++i) {
      const proto::Input& newest = actor_.input(i - def_->updates);
      const proto::Register& r = Reg(actor_.output(i));
      if (newest.register_() == r.id() && newest.initial_fills() == 1 && r.slots() > 1 &&
          r.fires_per_fill() == 1 && r.fill_mode() == proto::Register::FRESH) {
        continue;
      }
      return DamagedPlan(where_, absl::StrCat("does not make the next version of ", r.name()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckForm() const {
    RETURN_IF_ERROR(Annotate(CheckOpAgainst(op(), *def_), where_));
    if (static_cast<int>(op().outputs.size()) != def_->outputs) {
      return DamagedPlan(where_, absl::StrCat("writes ", op().outputs.size(), " registers, kernel ",
                                              def_->kind, " writes ", def_->outputs));
    }
    if (actor_.has_exchange() != IsCollective(actor_.kernel())) {
      return DamagedPlan(
          where_, absl::StrCat("kernel ", def_->kind,
                               actor_.has_exchange() ? " is no exchange" : " needs a group"));
    }
    if (actor_.has_boxing() != IsBoxing(actor_.kernel())) {
      return DamagedPlan(where_,
                         absl::StrCat("kernel ", def_->kind,
                                      actor_.has_boxing() ? " is no boxing" : " is a boxing"));
    }
    if (!proto::Boxing::Reduce_IsValid(actor_.boxing().reduce())) {
      return DamagedPlan(where_,
                         absl::StrCat("reduction ", actor_.boxing().reduce(), " is not known"));
    }
    RETURN_IF_ERROR(CheckAdds());
    return CheckRenewed();
  }

  // The first firing of a fill overwrites; only the others need a kernel that adds.
  absl::Status CheckAdds() const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const proto::Register& r = Reg(outputs_[i]);
      if (r.fill_mode() != proto::Register::ACCUMULATE || r.fires_per_fill() == 1) continue;
      const bool product = def_->HasProducts() && r.dtype() == proto::BF16;
      const bool fresh = std::cmp_less(i, def_->fresh);
      if (host_ == nullptr && !def_->overwrites && !product && !fresh) continue;
      return DamagedPlan(where_, absl::StrCat("adds up ", r.name(), ", but kernel ", def_->kind,
                                              product ? " does not add to bf16" : " overwrites"));
    }
    return absl::OkStatus();
  }

  // The outputs must be those that the definition of `kind` infers from these inputs.
  absl::Status CheckInferred(const OpDef& def) const {
    absl::StatusOr<std::vector<OutputSpec>> specs = def.infer(view());
    if (!specs.ok()) return Annotate(specs.status(), where_);
    for (size_t i = 0; i < specs->size(); ++i) {
      const Tensor& out = graph_.tensors[op().outputs[i]];
      const OutputSpec& spec = (*specs)[i];
      if (out.shape == spec.shape && out.dtype == spec.dtype) continue;
      return DamagedPlan(
          where_, absl::StrCat("writes ", out.name, " ", ToAbsl(Name(out.dtype)),
                               ToString(out.shape.dims), ", but kernel ", op().kind, " gives ",
                               ToAbsl(Name(spec.dtype)), ToString(spec.shape.dims)));
    }
    return absl::OkStatus();
  }

  bool Fits(Sbp sbp, TensorId t, int axis) const {
    for (const Layout::Split& split : layouts_[t].splits) {
      if (split.axis == axis) return sbp == S(split.dim);
    }
    return !sbp.split();
  }

  bool Fits(const Signature& row, int axis) const {
    return AllFit(row.in, op().inputs, axis) && AllFit(row.out, op().outputs, axis) &&
           MayDivide(row);
  }

  // True if the parts that input 0 is split into, over all axes that split it so, may be so many.
  bool MayDivide(const Signature& row) const {
    if (row.divided == 0) return true;
    int64_t parts = 1;
    for (const Layout::Split& split : layouts_[op().inputs[0]].splits) {
      if (row.in[0] == S(split.dim)) parts *= mesh_.axes[split.axis].size;
    }
    return row.divided % parts == 0;
  }

  bool AllFit(const std::vector<Sbp>& row, const std::vector<TensorId>& tensors, int axis) const {
    if (row.size() != tensors.size()) return false;
    for (size_t i = 0; i < row.size(); ++i) {
      if (!Fits(row[i], tensors[i], axis)) return false;
    }
    return true;
  }

  // On each axis the tensors are split as one row of the table says.
  absl::Status CheckRows() const {
    const std::vector<Signature> rows = def_->signatures(view());
    for (int axis = 0; axis < static_cast<int>(mesh_.axes.size()); ++axis) {
      const auto fits = [&](const Signature& row) { return Fits(row, axis); };
      if (std::any_of(rows.begin(), rows.end(), fits)) continue;
      return DamagedPlan(
          where_, absl::StrCat("kernel ", def_->kind, " cannot compute with its tensors split",
                               " as they are by axis ", mesh_.axes[axis].name));
    }
    return absl::OkStatus();
  }

  // The kind of device whose kernel runs: the host's processors are CPUs, also beside GPUs.
  proto::DeviceKind KernelDevice() const {
    const NetStream& stream = net_.streams[net_.actors[actor_.id()].stream];
    return stream.proto->kind() == proto::Stream::HOST_COMPUTE ? proto::CPU
                                                               : net_.plan->device_kind();
  }

  absl::Status CheckWorkspaceBytes() const {
    const auto local = [&](const std::vector<TensorId>& tensors) {
      std::vector<Dims> dims;
      dims.reserve(tensors.size());
      for (const TensorId t : tensors) {
        dims.push_back(LargestSlice(layouts_[t], mesh_).size);
      }
      return dims;
    };
    LocalOp pieces{op().attrs, local(op().inputs), local(op().outputs)};
    if (!op().inputs.empty()) pieces.dtype = graph_.tensors[op().inputs[0]].dtype;
    const int64_t needed =
        WorkspaceBytes(KernelDevice(), def_->kind, pieces, net_.plan->kernel_threads());
    const int64_t has = actor_.has_workspace() ? Reg(actor_.workspace()).slot_bytes() : 0;
    if (has >= needed) return absl::OkStatus();
    return DamagedPlan(where_, absl::StrCat("has ", has, " bytes of workspace, kernel ", def_->kind,
                                            " needs ", needed));
  }

  absl::Status CheckHost() const {
    for (const int64_t axis : Ints(op(), "replicated_axes")) {
      if (axis < 0 || axis >= static_cast<int64_t>(mesh_.axes.size())) {
        return DamagedPlan(where_, absl::StrCat("is replicated along axis ", axis));
      }
    }
    const std::string& kind = host_->kind;
    if (kind == "copy_in" || kind == "copy_out") return CheckCopy();
    if (kind == "report") return CheckReport();
    if (kind == "feed" || kind == "load_tokens") {
      if (kind == "load_tokens" && AttrString(op(), "source") == "feed") {
        return DamagedPlan(where_, "loads no tokens, but a feed");
      }
      RETURN_IF_ERROR(CheckInferred(*FindOpDef("input")));
      return CheckMirrored();
    }
    if (kind == "load_counts") return CheckInferred(*FindOpDef("count_ahead"));
    if (kind == "fetch") return CheckFetch();
    if (kind == "init_variable") RETURN_IF_ERROR(CheckInferred(*FindOpDef("variable")));
    return CheckVariable();
  }

  // A sequence in no more slices than tokens. Requires an input whose shape is inferred.
  absl::Status CheckMirrored() const {
    const int64_t slices = AttrInt(op(), "mirrored", 1);
    const Dims& dims = graph_.tensors[op().outputs[0]].shape.dims;
    if (slices >= 1 && (slices == 1 || (dims.size() == 2 && slices <= dims[1]))) {
      return absl::OkStatus();
    }
    return DamagedPlan(where_, absl::StrCat("mirrors ", slices, " slices of a sequence"));
  }

  // Empty where the attribute is missing, or of another type: CheckForm says so.
  static std::vector<int64_t> Ints(const Op& op, std::string_view key) {
    const auto it = op.attrs.find(key);
    const auto* ints =
        it == op.attrs.end() ? nullptr : std::get_if<std::vector<int64_t>>(&it->second);
    return ints == nullptr ? std::vector<int64_t>() : *ints;
  }

  absl::Status CheckReport() const {
    size_t scalars = 0;
    for (const TensorId t : op().inputs) {
      const Tensor& x = graph_.tensors[t];
      // Choices of experts, behind the scalars.
      const bool counts = x.shape.rank() == 1 && x.dtype == DType::kF64 &&
                          t == op().inputs.back() && op().inputs.size() > 1 &&
                          layouts_[t].splits.empty();
      if (counts) continue;
      if (x.shape.rank() != 0 || (x.dtype != DType::kF32 && x.dtype != DType::kF64)) {
        return DamagedPlan(where_,
                           absl::StrCat("reports ", x.name, ", which is no floating point scalar"));
      }
      ++scalars;
    }
    const size_t least = AttrBool(op(), "counted") ? 2 : 1;
    if (scalars >= least && scalars <= least + 1) return absl::OkStatus();
    return DamagedPlan(where_, absl::StrCat("reports ", scalars, " scalars"));
  }

  // Tensors that leave a plan must have a type that files support.
  absl::Status CheckFetch() const {
    const Tensor& x = graph_.tensors[op().inputs[0]];
    if (x.dtype != DType::kBF16) return absl::OkStatus();
    return DamagedPlan(where_, absl::StrCat("fetches ", x.name, ", which is bf16"));
  }

  absl::Status CheckCopy() const {
    const Tensor &from = graph_.tensors[op().inputs[0]], &to = graph_.tensors[op().outputs[0]];
    if (!HasHostArenas(*net_.plan)) return DamagedPlan(where_, "copies, but there is one memory");
    if (from.dtype == to.dtype && layouts_[op().inputs[0]] == layouts_[op().outputs[0]]) {
      return absl::OkStatus();
    }
    return DamagedPlan(
        where_, absl::StrCat("copies ", from.name, " to ", to.name, ", which has another layout"));
  }

  // The register of the device that a register of pinned memory is copied to or from, or itself.
  int OnDevice(int id) const {
    const NetRegister& r = net_.registers[id];
    if (r.proto->memory_kind() != proto::HOST) return id;
    for (const NetReader& reader : r.readers) {
      const proto::Actor& copy = net_.actor(reader.actor);
      if (copy.kernel() == "copy_in" && copy.output_size() > 0) return copy.output(0);
    }
    if (r.writer >= 0 && net_.actor(r.writer).kernel() == "copy_out" &&
        net_.actor(r.writer).input_size() > 0) {
      return net_.actor(r.writer).input(0).register_();
    }
    return id;
  }

  // The register is one of those that hold the variable of attribute `name`.
  absl::Status CheckVariable() const {
    const std::string name = AttrString(op(), "name");
    const int accessed = inputs_.empty() ? outputs_[0] : inputs_[0], id = OnDevice(accessed);
    if (holdings_.contains({name, accessed}) || holdings_.contains({name, id})) {
      return absl::OkStatus();
    }
    return DamagedPlan(where_,
                       absl::StrCat(Reg(id).name(), " does not hold variable \"", name, "\""));
  }

  const PlanNet& net_;
  const Mesh& mesh_;
  const Holdings& holdings_;
  const proto::Actor& actor_;
  const std::string where_;
  std::vector<int> inputs_, outputs_;  // registers with data
  const OpDef* def_ = nullptr;
  const OpDef* host_ = nullptr;  // the same, where it is a host kernel
  Graph graph_;                  // one op
  std::vector<Layout> layouts_;  // by tensor
};

// Sums are taken of what may be parts of a sum, maxima of what may be parts of a maximum.
absl::Status CheckReduction(const PlanNet& net, const Mesh& mesh, const Holdings& holdings,
                            const proto::Actor& actor, int input, const std::string& where) {
  if (actor.boxing().reduce() == proto::Boxing::NONE) return absl::OkStatus();
  const Origin origin = FindOrigin(net, input);
  if (origin.actor < 0) return absl::OkStatus();
  const bool sum = actor.boxing().reduce() == proto::Boxing::SUM;
  const proto::Actor& writer = net.actor(origin.actor);
  ActorOp op(net, mesh, holdings, writer, where);
  RETURN_IF_ERROR(op.Check());
  for (const int axis : actor.boxing().reduce_axis()) {
    if (mesh.axes[axis].size == 1 || op.MayWrite(origin.reg, sum ? P() : PMax(), axis)) continue;
    return DamagedPlan(where,
                       absl::StrCat("takes the ", sum ? "sum" : "maximum", " along axis ",
                                    mesh.axes[axis].name, " of what ", writer.name(), ", kernel ",
                                    writer.kernel(), ", does not give parts of"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyKernels(const PlanNet& net, bool work) {
  ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(net.plan->mesh(), "plan"));
  const Holdings holdings = FindHoldings(*net.plan);
  const proto::ProgramFacts& facts = FindFacts(*net.plan, *net.program);
  for (const proto::Actor& actor : net.program->actor()) {
    const std::string where =
        absl::StrCat("plan, program ", net.program->name(), ", actor ", actor.name());
    if (!actor.has_exchange()) {
      ActorOp op(net, mesh, holdings, actor, where);
      RETURN_IF_ERROR(op.Check());
      if (work) RETURN_IF_ERROR(op.CheckWork(FindFacts(facts, actor.id())));
      continue;
    }
    RETURN_IF_ERROR(VerifyWindow(net, mesh, actor, where));
    if (actor.exchange().has_partner()) continue;  // no op: verify_exchanges says all of it
    const std::vector<int> in = DataInputs(*net.plan, *net.program, actor);
    const std::vector<int> out = DataOutputs(*net.plan, *net.program, actor);
    for (size_t i = 0; i < in.size(); ++i) {
      RETURN_IF_ERROR(ActorOp(net, mesh, holdings, actor, where, in[i], out[i]).Check());
      RETURN_IF_ERROR(CheckReduction(net, mesh, holdings, actor, in[i], where));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
