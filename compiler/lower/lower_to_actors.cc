#include "compiler/lower/lower_to_actors.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"
#include "compiler/lower/boxing.h"
#include "compiler/lower/buckets.h"
#include "compiler/lower/gather_uses.h"
#include "compiler/lower/overlap.h"
#include "compiler/lower/registers.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/workspace.h"
#include "oneflow_core/plan/exchange_window.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// Invariants:
//  1. register_of_[t] is the register of tensor t; several tensors share one only where an op
//     updates it in place (OpDef::updates).
//  2. Actors are made in op order, those of buckets in theirs, so segments hold them in topological
//     order.
class Lowering {
 public:
  Lowering(const Graph& graph, const PersistentIds& ids, const proto::Plan& plan,
           const ProgramSpec& spec)
      : graph_(graph),
        ids_(ids),
        plan_(plan),
        spec_(spec),
        uses_(FindUses(graph)),
        register_of_(graph.tensors.size(), -1) {
    lowered_.program.set_name(spec.name);
    lowered_.program.set_micro_batches(spec.micro_batches);
    lowered_.program.set_micro_batch_size(spec.micro_batch_size);
    if (spec.steps_a_round > 1) lowered_.program.set_steps_a_round(spec.steps_a_round);
    if (spec.splits_backward) FindWeightGradients();
    if (plan.recipe().overlap()) {
      exchange_lanes_ = ExchangeLanes(graph, plan.recipe().prefetch() > 0);
    }
  }

  absl::StatusOr<Lowered> Run() {
    for (const Op& op : graph_.ops) RETURN_IF_ERROR(AddRegisters(op));
    for (const Op& op : graph_.ops) {
      const Lane lane = FindLane(op);
      const bool joined = lane == Lane::kGradient || lane == Lane::kGather;
      if (!joined) RETURN_IF_ERROR(AddActor(op));
    }
    if (plan_.recipe().overlap()) {
      for (const std::vector<OpId>& bucket :
           Buckets(graph_, exchange_lanes_, plan_.recipe().bucket_bytes())) {
        AddBucket(bucket, Lane::kGradient);
      }
      for (const GatherUse& use : FindGatherUses(graph_, exchange_lanes_)) {
        RETURN_IF_ERROR(AddGathers(use));
      }
    }
    for (const HostOutput& output : spec_.outputs) AddHostOutput(output);
    return std::move(lowered_);
  }

 private:
  int64_t FiringsPerStep(Phase phase) const { return IsOnceAStep(phase) ? 1 : spec_.micro_batches; }

  bool HostReadsOncePerStep(TensorId t) const {
    return std::any_of(spec_.outputs.begin(), spec_.outputs.end(), [t](const HostOutput& output) {
      return std::find(output.tensors.begin(), output.tensors.end(), t) != output.tensors.end();
    });
  }

  // True if some of the outputs of an op of the micro-batches, in which it does not tell one from
  // another, are read once a step: then they sum over them.
  absl::StatusOr<bool> Accumulates(const Op& op, std::span<const TensorId> outputs) const {
    if (IsOnceAStep(op.phase)) return false;
    bool once = false, often = false;
    for (TensorId t : outputs) {
      once = once || HostReadsOncePerStep(t);
      for (const Use& use : uses_[t]) {
        (graph_.ops[use.op].phase == Phase::kUpdate ? once : often) = true;
      }
    }
    if (once && often && spec_.micro_batches > 1) {
      return InputError(Where(op), "is read both once a micro-batch and once a step",
                        "read it through an op of its own in one of the two");
    }
    return once;
  }

  absl::Status AddRegisters(const Op& op) {
    if (op.kind == "variable") {
      const auto it = ids_.find(std::pair(VariableName(op), op.stage));
      CHECK(it != ids_.end()) << op.name;
      register_of_[op.outputs[0]] = it->second;
      if (op.copied_once) lowered_.copied_once.insert(it->second);
      return absl::OkStatus();
    }
    const int updates = FindOpDef(op)->updates + FindOpDef(op)->versioned_updates;
    ShareUpdated(op, updates);
    if (static_cast<int>(op.outputs.size()) == updates) return absl::OkStatus();
    const auto fresh = static_cast<size_t>(FindOpDef(op)->fresh);
    const std::span<const TensorId> outputs = op.outputs;
    ASSIGN_OR_RETURN(const bool first, Accumulates(op, outputs.first(fresh)));
    ASSIGN_OR_RETURN(const bool rest, Accumulates(op, outputs.subspan(fresh)));
    for (size_t i = updates; i < outputs.size(); ++i) {
      const TensorId t = outputs[i];
      const bool accumulates = i < fresh ? first : rest;
      proto::Register& r = *lowered_.program.add_register_();
      r = MakeRegister(graph_, t, op.stage);
      if (op.on_host) r.set_memory_kind(proto::HOST);
      r.set_id(static_cast<int>(ids_.size()) + lowered_.program.register__size() - 1);
      if (accumulates && spec_.micro_batches > 1) {
        r.set_fill_mode(proto::Register::ACCUMULATE);
        r.set_fires_per_fill(static_cast<int>(spec_.micro_batches));
      }
      register_of_[t] = r.id();
      if (op.in_host_memory && !op.on_host) lowered_.to_host.insert(r.id());
      if (op.copied_once) lowered_.copied_once.insert(r.id());
    }
    return absl::OkStatus();
  }

  // An op that updates a variable, in place or as the next version, writes the register of the old
  // value.
  void ShareUpdated(const Op& op, int updates) {
    for (int i = 0; i < updates; ++i) {
      CHECK(graph_.Producer(op.inputs[i]).kind == "variable") << op.name << " updates no variable";
      CHECK(uses_[op.outputs[i]].empty())
          << op.name << ": its outputs are read in the next step only";
      register_of_[op.outputs[i]] = register_of_[op.inputs[i]];
    }
  }

  // `partner`: the stage at the other end of a send or receive.
  proto::Actor* NewActor(const Op& op, std::string_view kernel, Lane lane, int partner = -1) {
    proto::Actor* actor = lowered_.program.add_actor();
    actor->set_id(lowered_.program.actor_size() - 1);
    actor->set_name(op.name);
    actor->set_kernel(std::string(kernel));
    actor->set_stage(op.stage);
    proto::ActorFacts* facts = FactsOfActor(actor);
    facts->set_scope(op.scope);
    if (op.block >= 0) facts->set_block(op.block);
    facts->set_recomputed(op.recomputed);
    *actor->mutable_attr() = AttrsToProto(op.attrs);
    SegmentFor(op, lane, partner)->add_actor(actor->id());
    return actor;
  }

  proto::ActorFacts* FactsOfActor(const proto::Actor* actor) {
    return MutableFacts(actor->id(), &lowered_.facts);
  }

  // W: the products of the backward whose results only reach the update, and what comes of them.
  // Gradients of weights that are no products (of biases, norms, embeddings) stay in B: they take
  // little time there, and in W would keep what they read. No transfer is in W: what a product
  // gives is read on other stages by other logical ops, or in the update.
  void FindWeightGradients() {
    const std::vector<bool> only = OnlyForTheUpdate();
    weight_gradient_.assign(graph_.ops.size(), false);
    for (size_t id = 0; id < graph_.ops.size(); ++id) {
      const Op& op = graph_.ops[id];
      const auto of_product = [&](TensorId t) {
        return weight_gradient_[graph_.tensors[t].producer];
      };
      weight_gradient_[id] =
          only[id] && (FindOpDef(op)->HasProducts() ||
                       std::any_of(op.inputs.begin(), op.inputs.end(), of_product));
    }
  }

  // By op: whether it is of the backward and its results only reach the update, straight or through
  // ops of the same logical op. A tensor that reaches it through another op's gradient is the
  // gradient of an activation.
  std::vector<bool> OnlyForTheUpdate() const {
    std::vector<bool> only(graph_.ops.size(), false);
    for (size_t id = graph_.ops.size(); id-- > 0;) {
      const Op& op = graph_.ops[id];
      if (op.phase != Phase::kBackward) continue;
      const auto late = [&](const Use& use) {
        const Op& reader = graph_.ops[use.op];
        return reader.phase == Phase::kUpdate || (only[use.op] && reader.scope == op.scope);
      };
      only[id] = std::all_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) {
        return std::all_of(uses_[t].begin(), uses_[t].end(), late);
      });
    }
    return only;
  }

  Task MakeTask(const Op& op) const {
    switch (op.phase) {
      case Phase::kPrepare: return {Part::kPrepare};
      case Phase::kForward: return {Part::kForward, op.chunk};
      case Phase::kUpdate: return {Part::kUpdate};
      case Phase::kBackward: break;
    }
    // No transfer is in W, so a send, which is no op of the graph, is not either.
    const bool late = !IsTransfer(op.kind) && !weight_gradient_.empty() &&
                      weight_gradient_[&op - graph_.ops.data()];
    return {late ? Part::kWeights : Part::kBackward, op.chunk};
  }

  proto::Segment* NewSegment(std::string name, int stage, Lane lane, Task task, int partner = -1) {
    proto::Segment* segment = lowered_.program.add_segment();
    segment->set_id(lowered_.program.segment_size() - 1);
    segment->set_name(std::move(name));
    segment->set_stage(stage);
    lowered_.segments.push_back({lane, task, 1, partner});
    return segment;
  }

  // P, F, B, W and U are one segment for all ops of a chunk and lane. Each send, each receive and
  // each actor of the host is a separate segment.
  proto::Segment* SegmentFor(const Op& op, Lane lane, int partner) {
    const Task task = MakeTask(op);
    const bool together = lane == Lane::kCompute || lane == Lane::kCollective ||
                          lane == Lane::kGradient || lane == Lane::kReduction ||
                          lane == Lane::kGather || lane == Lane::kHostUpdate;
    if (!together) return NewSegment(op.name, op.stage, lane, task, partner);
    const auto [known, fresh] =
        segment_of_.try_emplace(std::tuple(op.stage, lane, task.part, task.chunk));
    if (fresh) {
      known->second = NewSegment(TaskName(task, spec_.chunks > 1), op.stage, lane, task)->id();
    }
    return lowered_.program.mutable_segment(known->second);
  }

  void AddInput(proto::Actor* actor, TensorId t, Phase reader) {
    proto::Input* input = actor->add_input();
    input->set_register_(register_of_[t]);
    const bool persistent = register_of_[t] < static_cast<int>(ids_.size());
    // A variable is filled once a step, and holds its value from the start; what is prepared is
    // filled once a step, too.
    const bool once = persistent || graph_.Producer(t).phase == Phase::kPrepare;
    input->set_fires_per_read(static_cast<int>(once ? FiringsPerStep(reader) : 1));
    // The version that a step computes with lags behind the one that its update reads.
    const int64_t lag = reader == Phase::kUpdate ? 0 : AttrInt(graph_.Producer(t), "lag");
    input->set_initial_fills(persistent ? static_cast<int>(1 + lag) : 0);
  }

  // The send goes with the writer of what it sends, on that one's stage.
  void AddTransfer(const Op& op) {
    static constexpr std::array<Lane, kPhases> kSends = {Lane::kSendForward, Lane::kSendForward,
                                                         Lane::kSendBackward, Lane::kSendUpdate};
    static constexpr std::array<Lane, kPhases> kReceives = {
        Lane::kReceiveForward, Lane::kReceiveForward, Lane::kReceiveBackward, Lane::kReceiveUpdate};
    const auto phase = static_cast<size_t>(op.phase);
    const Op& writer = graph_.Producer(op.inputs[0]);
    Op sent = op;
    sent.name = op.name + ".send";
    sent.stage = writer.stage;
    sent.chunk = IsOnceAStep(op.phase) ? 0 : writer.chunk;
    const int send = NewActor(sent, "send", kSends[phase], op.stage)->id();
    proto::Actor* receive = NewActor(op, "receive", kReceives[phase], writer.stage);
    receive->add_output(register_of_[op.outputs[0]]);
    LowerBoxing(graph_, {{&op}}, plan_.group(), plan_.cluster(), receive, FactsOfActor(receive));
    AddWorkspace(receive, WindowBytes(op, *receive));
    receive->mutable_exchange()->set_partner(send);
    proto::Actor* sender = lowered_.program.mutable_actor(send);
    *sender->mutable_exchange() = receive->exchange();
    sender->mutable_exchange()->set_partner(receive->id());
    AddInput(sender, op.inputs[0], op.phase);
  }

  absl::Status AddActor(const Op& op) {
    if (op.kind == "variable") return absl::OkStatus();
    if (IsTransfer(op.kind)) {
      AddTransfer(op);
      return absl::OkStatus();
    }
    proto::Actor* actor = NewActor(op, KernelName(op), FindLane(op));
    if (op.kind == "input") {
      (*actor->mutable_attr())["name"].set_s(AttrString(op, "input", op.name));
    }
    const int updates = FindOpDef(op)->updates;
    for (TensorId t : std::span(op.inputs).subspan(updates)) AddInput(actor, t, op.phase);
    for (TensorId t : op.outputs) actor->add_output(register_of_[t]);
    if (IsBoxing(op.kind)) {
      LowerBoxing(graph_, {{&op}}, plan_.group(), plan_.cluster(), actor, FactsOfActor(actor));
    }
    SetFlops(op, actor);
    AddWorkspace(actor, actor->has_exchange() ? WindowBytes(op, *actor) : KernelBytes(op));
    if (op.on_host && actor->has_workspace()) {
      lowered_.program.mutable_register_()->rbegin()->set_memory_kind(proto::HOST);
    }
    return absl::OkStatus();
  }

  absl::Status AddGathers(const GatherUse& use) {
    std::vector<int> actors;
    for (const OpId id : use.casts) {
      RETURN_IF_ERROR(AddActor(graph_.ops[id]));
      actors.push_back(lowered_.program.actor_size() - 1);
    }
    for (const std::vector<OpId>& exchange : use.exchanges) {
      actors.push_back(AddBucket(exchange, Lane::kGather));
    }
    lowered_.gather_uses.push_back(std::move(actors));
    return absl::OkStatus();
  }

  // One exchange of all tensors.
  int AddBucket(const std::vector<OpId>& bucket, Lane lane) {
    const Op& first = graph_.ops[bucket[0]];
    proto::Actor* actor = NewActor(first, first.kind, lane);
    if (bucket.size() > 1) actor->set_name(absl::StrCat(first.name, "+", bucket.size() - 1));
    std::vector<const Op*> ops;
    for (const OpId id : bucket) {
      const Op& op = graph_.ops[id];
      ops.push_back(&op);
      AddInput(actor, op.inputs[0], op.phase);
      actor->add_output(register_of_[op.outputs[0]]);
    }
    LowerBoxing(graph_, ops, plan_.group(), plan_.cluster(), actor, FactsOfActor(actor));
    int64_t window = 0;
    for (const Op* op : ops) {
      window = JoinWindows(plan_.device_kind(), window, WindowBytes(*op, *actor));
    }
    AddWorkspace(actor, window);
    return actor->id();
  }

  Lane FindLane(const Op& op) const {
    if (op.kind == "input" || op.kind == "count_ahead") return Lane::kHostIn;
    if (op.on_host) return Lane::kHostUpdate;
    return exchange_lanes_.empty() ? Lane::kCompute : exchange_lanes_[&op - graph_.ops.data()];
  }

  std::string KernelName(const Op& op) const {
    if (op.kind == "count_ahead") return "load_counts";
    if (op.kind != "input") return op.kind;
    return spec_.feed_inputs || AttrString(op, "source", "feed") == "feed" ? "feed" : "load_tokens";
  }

  void SetFlops(const Op& op, const proto::Actor* actor) {
    const OpDef* def = FindOpDef(op);
    CHECK(def != nullptr) << op.kind;
    if (def->flops && !IsBoxing(op.kind)) {
      FactsOfActor(actor)->set_flops(def->flops(OpView{graph_, op}) /
                                     static_cast<double>(DeviceShare(op)));
    }
  }

  // Scratch is a register, too: it shares bytes with registers that are over, and the proof covers
  // it.
  void AddWorkspace(proto::Actor* actor, int64_t bytes) {
    if (bytes == 0) return;
    proto::Register& r = *lowered_.program.add_register_();
    r = MakeWorkspace(actor->name() + ".workspace", actor->stage(), bytes);
    r.set_id(static_cast<int>(ids_.size()) + lowered_.program.register__size() - 1);
    actor->set_workspace(r.id());
  }

  int64_t KernelBytes(const Op& op) const {
    LocalOp local{op.attrs, {}, {}};
    for (TensorId t : op.inputs) local.in.push_back(LocalDims(graph_, t));
    for (TensorId t : op.outputs) local.out.push_back(LocalDims(graph_, t));
    if (!op.inputs.empty()) local.dtype = graph_.tensors[op.inputs[0]].dtype;
    const proto::DeviceKind kind = op.on_host ? proto::CPU : plan_.device_kind();
    return WorkspaceBytes(kind, op.kind, local, plan_.kernel_threads());
  }

  // The window for data from members that do not share memory: no plan says which
  // members do.
  int64_t WindowBytes(const Op& op, const proto::Actor& actor) const {
    const Tensor &from = graph_.tensors[op.inputs[0]], &to = graph_.tensors[op.outputs[0]];
    ExchangedTensor tensor;
    for (const int axis : actor.boxing().reduce_axis()) {
      tensor.copies *= graph_.mesh.axes[axis].size;
    }
    tensor.members = CountMembers(plan_.group(actor.exchange().group()), graph_.mesh);
    tensor.element_bytes = static_cast<int64_t>(ElementBytes(to.dtype));
    const proto::Register& out =
        lowered_.program.register_(register_of_[op.outputs[0]] - static_cast<int>(ids_.size()));
    tensor.accumulates = out.fill_mode() == proto::Register::ACCUMULATE;
    return oneflow::WindowBytes(plan_.device_kind(), MakeLayout(from.shape.dims, from.sbp),
                                MakeLayout(to.shape.dims, to.sbp), graph_.mesh, tensor);
  }

  // Devices that share the work of an op: those along axes on which something of it is split.
  int64_t DeviceShare(const Op& op) const {
    int64_t share = 1;
    const Mesh& mesh = graph_.mesh;
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      const auto split = [&](TensorId t) { return graph_.tensors[t].sbp[axis].split(); };
      if (std::any_of(op.inputs.begin(), op.inputs.end(), split) ||
          std::any_of(op.outputs.begin(), op.outputs.end(), split)) {
        share *= mesh.axes[axis].size;
      }
    }
    return share;
  }

  void AddHostOutput(const HostOutput& output) {
    Op op;
    op.name = output.name;
    op.scope = output.name;
    op.attrs = output.attrs;
    op.phase = Phase::kUpdate;
    op.stage = graph_.Producer(output.tensors[0]).stage;
    proto::Actor* actor = NewActor(op, output.kernel, Lane::kHostOut);
    for (TensorId t : output.tensors) AddInput(actor, t, op.phase);
  }

  const Graph& graph_;
  const PersistentIds& ids_;
  const proto::Plan& plan_;
  const ProgramSpec& spec_;
  const std::vector<std::vector<Use>> uses_;
  std::vector<int> register_of_;       // by tensor
  std::vector<bool> weight_gradient_;  // by op; empty where the backward is one
  std::vector<Lane> exchange_lanes_;   // by op; empty without overlap
  std::map<std::tuple<int, Lane, Part, int>, int> segment_of_;  // (stage, lane, part, chunk)
  Lowered lowered_;
};

}  // namespace

absl::StatusOr<Lowered> LowerToActors(const Graph& graph, const PersistentIds& ids,
                                      const proto::Plan& plan, const ProgramSpec& spec) {
  return Lowering(graph, ids, plan, spec).Run();
}

}  // namespace oneflow
