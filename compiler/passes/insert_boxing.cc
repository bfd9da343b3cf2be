// Inserts boxing: the ops that give every tensor the SBP that its readers need. On the devices of a
// stage they are the cheapest path of primitives (boxing_path.h), one op each. The attribute `axis`
// names its mesh axes (several for some all_to_all, "data,tensor"); on one axis `dim_from` and
// `dim_to` give its dimensions. From stage to stage there is a `transfer`. docs/boxing.md explains
// it.
//
// Readers that need the same layout of a tensor in the same chunk of a stage share the ops. Readers
// of the update phase have their own, which run after accumulation, once a step. Forward and
// backward readers share, with two exceptions. A gathered variable does not live from forward to
// backward, unless it has the attribute `gather_shared`. But on axes over which it is gathered once
// a step (GathersOnce), all readers share one gather before the first micro-batch. With `regather`
// the backward gathers activations again, and only their parts are kept.
//
// Between stages with a slow link, a tensor that is replicated on an axis is sent in parts, if
// slicing before the link and gathering after takes less time.
//
// A partial value is reduced on the stage that made it, before it is sent to a reader that needs it
// reduced. A reader that sums it further gets the parts as they are. So each sum has the same terms
// in the same order wherever the model is split into stages.
//
// Partial values that a run reports are reduced: Graph::loss and Graph::outputs become the reduced
// tensors (the loss in the update phase).
//
// Guarantees: each op's inputs have exactly the SBP of its chosen signature and are on its stage
// (verify_graph.cc proves it). Op::why of each op added names the reader that needed it.
//
// Next: proto/plan.proto, the plan that the graph becomes.
#include "compiler/passes/passes.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/boxing/boxing_path.h"
#include "compiler/boxing/boxing_primitive.h"
#include "compiler/boxing/stand_in.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/cost/kernel_cost.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {
namespace {

// One use of a tensor: its reader, and the SBP that it needs.
struct Need {
  NdSbp sbp;
  int stage = 0;
  int chunk = 0;
  Phase phase = Phase::kForward;
  std::string reader;  // for `why`
};

class BoxingInserter {
 public:
  BoxingInserter(Graph* graph, const proto::Cluster& cluster, bool regather)
      : graph_(graph),
        regather_(regather),
        cluster_(ClusterForBoxing(cluster)),
        kernels_(cluster_.device()),
        stage_(OneStage(graph->mesh)),
        costs_{cluster_, graph->mesh, &kernels_},
        stage_costs_{cluster_, stage_, &kernels_} {
    for (const Op& op : graph_->ops) names_.insert(op.name);
    for (const Tensor& tensor : graph_->tensors) {
      const Op& op = graph_->ops[tensor.producer];
      const bool of_variable = DerivesFromVariable(op) || CastsForUse(*graph_, op);
      origin_.push_back({op.stage, op.chunk, op.phase, op.block, op.scope, of_variable,
                         SharesGathers(*graph_, op), OnceAxes(op), tensor.name});
    }
  }

  void Run(const SbpChoice& choice) {
    for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
      Op op = graph_->ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        op.inputs[i] =
            Provide(op.inputs[i], {choice.op_inputs[id][i], op.stage, op.chunk, op.phase, op.name});
      }
      ops_.push_back(std::move(op));
    }
    for (TensorId& t : graph_->outputs) t = Resolve(t, origin_[t].phase, "the run");
    if (graph_->loss >= 0) graph_->loss = Resolve(graph_->loss, Phase::kUpdate, "the report");
    SetOps(graph_, std::move(ops_));
  }

 private:
  // Facts of the op that made a tensor. The ops are being rebuilt, so tensors carry them.
  struct Origin {
    int stage, chunk;
    Phase phase;
    int block;
    std::string scope;
    bool variable;  // or a cast of one, or prepared from one
    bool shared;    // of it: a forward and its backward read the same gather
    // Mesh axes on which it is boxed once a step, for all readers of the micro-batches.
    std::vector<int> once;
    std::string root;  // the tensor before any boxing
  };
  // Boxed tensors stay on their stage; variables are never sent to another one.
  using BoxedKey = std::tuple<TensorId, std::string, int, int>;  // SBP, chunk, sharing class
  using TransferKey = std::tuple<TensorId, int, int>;            // stage, chunk

  TensorId Provide(TensorId t, const Need& need) {
    t = Cross(t, need);
    if (!origin_[t].once.empty() && need.phase != Phase::kUpdate) {
      Need step{graph_->tensors[t].sbp, need.stage, /*chunk=*/0, Phase::kPrepare, need.reader};
      for (const int axis : origin_[t].once) step.sbp[axis] = need.sbp[axis];
      t = Boxed(t, step);
    }
    return Boxed(t, need);
  }

  // `t`, or what boxing makes of it on its stage.
  TensorId Boxed(TensorId t, const Need& need) {
    if (graph_->tensors[t].sbp == need.sbp) return t;
    const std::string why = Why(t, need);
    const Tensor& tensor = graph_->tensors[t];
    for (const BoxingStep& step : paths_.Find(tensor, tensor.sbp, need.sbp)) {
      t = Box(t, step, need, why);
    }
    return t;
  }

  std::vector<int> OnceAxes(const Op& op) const {
    std::vector<int> axes;
    for (int axis = 0; axis < static_cast<int>(graph_->mesh.axes.size()); ++axis) {
      if (GathersOnce(*graph_, op, axis)) axes.push_back(axis);
    }
    return axes;
  }

  // The layers and stages of a model repeat the same few paths.
  class PathTable {
   public:
    explicit PathTable(const BoxingCosts& costs) : costs_(costs) {}
    const std::vector<BoxingStep>& Find(const Tensor& tensor, const NdSbp& from, const NdSbp& to) {
      const auto [known, fresh] =
          known_.try_emplace({tensor.shape.dims, tensor.dtype, ToString(from), ToString(to)});
      if (fresh) known->second = BoxingPath(costs_, ToBoxed(tensor), from, to);
      return known->second;
    }

   private:
    const BoxingCosts& costs_;
    std::map<std::tuple<Dims, DType, std::string, std::string>, std::vector<BoxingStep>> known_;
  };

  // The SBP in which a tensor of SBP `have` is sent to a reader on another stage that needs `need`:
  // `have`, with those partial values reduced that the reader needs reduced. If these are on
  // several axes, the tensor is resharded to `need` before it is sent, because the path to that is
  // the order of the sums.
  static NdSbp SbpToSend(const NdSbp& have, const NdSbp& need) {
    if (CountSums(have, need) > 1) return need;
    NdSbp sbp = have;
    for (size_t a = 0; a < have.size(); ++a) {
      if (have[a].partial() && !need[a].partial()) sbp[a] = need[a];
    }
    return sbp;
  }
  static int CountSums(const NdSbp& have, const NdSbp& need) {
    int sums = 0;
    for (size_t a = 0; a < have.size(); ++a) sums += have[a].partial() && !need[a].partial();
    return sums;
  }

  // Cross-mesh resharding: `sbp`, or `sbp` split along axes on which it is replicated, whichever
  // takes the least time. A split tensor is sliced before the link between stages, sent in parts,
  // and gathered behind it. No candidate sums.
  NdSbp SplitForTransfer(const Tensor& tensor, const NdSbp& sbp, const Need& need, int from) {
    const BoxedTensor boxed = ToBoxed(tensor);
    const auto seconds = [&](const NdSbp& sent) {
      double sum = BoxingSeconds(costs_, TransferWork(graph_->mesh, boxed, sent, from, need.stage));
      for (const auto& [a, b] : {std::pair(&sbp, &sent), std::pair(&sent, &need.sbp)}) {
        for (const BoxingStep& step : split_paths_.Find(tensor, *a, *b)) sum += step.seconds;
      }
      return sum;
    };
    NdSbp best = sbp;
    if (costs_.cluster.level_size() < 2) return best;  // equal links: never worth it
    double least = seconds(sbp);
    for (int axis = 0; axis < static_cast<int>(sbp.size()); ++axis) {
      if (!sbp[axis].broadcast() || graph_->mesh.axes[axis].size == 1) continue;
      if (axis == graph_->mesh.stage_axis()) continue;
      for (int d = 0; d < tensor.shape.rank(); ++d) {
        NdSbp split = sbp;
        split[axis] = S(d);
        if (PrimitiveBetween(graph_->mesh, sbp, split).kind != "slice") continue;
        if (tensor.shape.dims[d] % graph_->mesh.axes[axis].size != 0) continue;
        const double s = seconds(split);
        if (s >= least) continue;
        best = split;
        least = s;
      }
    }
    return best;
  }

  // `t`, or what a transfer makes of it on the stage of `need`.
  TensorId Cross(TensorId t, const Need& need) {
    if (origin_[t].stage == need.stage) return t;
    const int from = origin_[t].stage;
    Need before = need;
    before.stage = from;
    before.chunk = origin_[t].chunk;
    before.sbp = SbpToSend(graph_->tensors[t].sbp, need.sbp);
    const NdSbp split = SplitForTransfer(graph_->tensors[t], before.sbp, need, from);
    if (split != before.sbp) {
      // On its way to these parts a tensor would be summed in an order of its own.
      if (CountSums(graph_->tensors[t].sbp, before.sbp) > 1) t = Provide(t, before);
      before.reader = "the link to stage " + std::to_string(need.stage);
    }
    before.sbp = split;
    const TensorId source = Provide(t, before);
    TensorId& arrived = transferred_[{source, need.stage, need.chunk}];
    if (arrived > 0) return arrived - 1;  // ids are stored plus one: 0 means not yet
    Op op;
    op.kind = "transfer";
    op.name = Unused(graph_->tensors[source].name + ".to" + std::to_string(need.stage));
    op.why = origin_[t].root + " is on stage " + std::to_string(from) + "; " + need.reader +
             " of stage " + std::to_string(need.stage) + " needs it";
    const TensorId result = Emit(std::move(op), source, before.sbp, need);
    arrived = result + 1;
    return result;
  }

  TensorId Box(TensorId t, const BoxingStep& step, const Need& need, const std::string& why) {
    const int sharing = GathersAgain(t, step, need) ? kAgain : SharingClass(t, need.phase);
    const BoxedKey key{t, ToString(step.to), need.chunk, sharing};
    if (auto it = boxed_.find(key); it != boxed_.end()) return it->second;
    Op op;
    op.kind = std::string(step.kind);
    op.name = Unused(origin_[t].root + "." + op.kind);
    SetAxes(graph_->tensors[t].sbp, step.to, &op);
    op.why = why;
    return boxed_[key] = Emit(std::move(op), t, step.to, need);
  }

  // For the reader of a printed graph: which mesh axes, and on one from and to which dimension.
  void SetAxes(const NdSbp& from, const NdSbp& to, Op* op) const {
    const Mesh& mesh = graph_->mesh;
    const BoxingPrimitive primitive = PrimitiveBetween(mesh, from, to);
    std::vector<int> axes = primitive.along;
    for (int a = 0; axes.empty(); ++a) {
      if (!(from[a] == to[a])) axes.push_back(a);  // local
    }
    std::string names;
    for (const int a : axes) names += (names.empty() ? "" : ",") + mesh.axes[a].name;
    op->attrs["axis"] = names;
    if (axes.size() > 1) return;
    if (from[axes[0]].split()) op->attrs["dim_from"] = static_cast<int64_t>(from[axes[0]].dim);
    if (to[axes[0]].split()) op->attrs["dim_to"] = static_cast<int64_t>(to[axes[0]].dim);
  }

  // The op as it stands where `need` is.
  TensorId Emit(Op op, TensorId source, const NdSbp& sbp, const Need& need) {
    op.inputs = {source};
    op.stage = need.stage;
    op.phase = need.phase == Phase::kPrepare ? Phase::kPrepare
                                             : std::max(origin_[source].phase, need.phase);
    op.chunk = IsOnceAStep(op.phase) ? 0 : need.chunk;
    op.scope = origin_[source].scope;
    op.block = origin_[source].block;
    Tensor tensor = graph_->tensors[source];
    tensor.name = op.name;
    tensor.output = 0;
    tensor.constraint.clear();
    tensor.sbp = sbp;
    op.outputs = {static_cast<TensorId>(graph_->tensors.size())};
    Origin origin = origin_[source];
    std::tie(origin.stage, origin.chunk, origin.phase) = std::tuple(op.stage, op.chunk, op.phase);
    origin_.push_back(std::move(origin));
    graph_->tensors.push_back(std::move(tensor));
    ops_.push_back(std::move(op));
    return ops_.back().outputs[0];
  }

  TensorId Resolve(TensorId t, Phase phase, const std::string& reader) {
    NdSbp sbp = graph_->tensors[t].sbp;
    for (Sbp& s : sbp) {
      if (s.partial()) s = B();
    }
    return Provide(t, {std::move(sbp), origin_[t].stage, origin_[t].chunk, phase, reader});
  }

  // True if the backward gathers for itself what the forward has made, and gathered, too.
  bool GathersAgain(TensorId t, const BoxingStep& step, const Need& need) const {
    return regather_ && step.kind == "all_gather" && !origin_[t].variable &&
           origin_[t].phase == Phase::kForward && need.phase == Phase::kBackward;
  }

  static constexpr int kAgain = 1;  // beside the class below of what is no variable
  int SharingClass(TensorId t, Phase phase) const {
    if (!origin_[t].variable) return 0;
    if (origin_[t].shared && phase == Phase::kBackward) phase = Phase::kForward;
    return static_cast<int>(phase);
  }

  std::string Why(TensorId t, const Need& need) const {
    std::string is, needs;
    const NdSbp& have = graph_->tensors[t].sbp;
    for (size_t a = 0; a < have.size(); ++a) {
      if (have[a] == need.sbp[a]) continue;
      const std::string& axis = graph_->mesh.axes[a].name;
      is += (is.empty() ? "" : ", ") + ToString(have[a]) + " on " + axis;
      needs += (needs.empty() ? "" : ", ") + ToString(need.sbp[a]);
    }
    return origin_[t].root + " is " + is + "; " + need.reader + " needs " + needs;
  }

  std::string Unused(const std::string& wish) {
    std::string name = wish;
    for (int i = 2; !names_.insert(name).second; ++i) name = wish + "." + std::to_string(i);
    return name;
  }

  Graph* graph_;
  const bool regather_;
  const proto::Cluster cluster_;
  const KernelCost kernels_;
  const Mesh stage_;
  // Of what crosses stages; and of what stays in one, as if there were no others.
  const BoxingCosts costs_, stage_costs_;
  PathTable paths_{stage_costs_};  // on the devices of a stage
  PathTable split_paths_{costs_};  // before and after a transfer, whose time they enter
  std::vector<Op> ops_;
  std::vector<Origin> origin_;  // of each tensor
  std::set<std::string> names_;
  std::map<BoxedKey, TensorId> boxed_;
  std::map<TransferKey, TensorId> transferred_;
};

}  // namespace

absl::Status InsertBoxing(Graph* graph, const SbpChoice& choice, const proto::Cluster& cluster,
                          bool regather) {
  CHECK_EQ(choice.op_inputs.size(), graph->ops.size());
  BoxingInserter(graph, cluster, regather).Run(choice);
  return absl::OkStatus();
}

}  // namespace oneflow
