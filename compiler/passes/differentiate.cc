// Reverse-mode differentiation: appends the backward ops of a loss with the gradient functions of
// the op registry. It does not sum the gradients of a variable. Each use has its own gradient,
// which accumulates over the micro-batches separately, because the order of sums must not depend on
// stages.
//
// Gradient ops have Phase::kBackward, the stage of their forward op, and its scope. Only tensors
// between a variable that is trained and the loss get a gradient: the backward ends at the first of
// them. Gradients of an activation with several readers are summed by `add_n` in the order of the
// readers.
#include "compiler/passes/passes.h"

#include <glog/logging.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

class Differentiator {
 public:
  explicit Differentiator(Graph* graph) : graph_(graph), forward_ops_(graph->ops.size()) {}

  absl::StatusOr<Gradients> Run(TensorId loss) {
    FindNeeds();
    RETURN_IF_ERROR(CheckTrains(loss));
    RETURN_IF_ERROR(SeedLoss(loss));
    for (OpId id = static_cast<OpId>(forward_ops_) - 1; id >= 0; --id) RETURN_IF_ERROR(Visit(id));
    return Gradients{std::move(variables_).Take(), std::move(mirrors_)};
  }

 private:
  absl::Status CheckTrains(TensorId loss) const {
    const Op& producer = graph_->Producer(loss);
    if (IsVariable(producer)) {
      return InputError(Where(producer), "is the loss but a variable itself",
                        "there is nothing to train");
    }
    if (needs_[loss]) return absl::OkStatus();
    const bool frozen = std::any_of(graph_->ops.begin(), graph_->ops.end(),
                                    [](const Op& op) { return IsFrozen(op); });
    if (!frozen) {
      return InputError(Where(producer), "is the loss but depends on no variable",
                        "there is nothing to train");
    }
    return InputError(Where(producer),
                      "is the loss, and all variables that it depends on are frozen",
                      "train some of them: take `frozen` from their ops, or add adapters");
  }

  // The gradient that a reader of a tensor contributes to it.
  struct Contribution {
    Use use;
    TensorId grad;
  };

  // Uses of the variables, found in reverse op order, handed out in op order.
  struct VariableTable {
    std::map<TensorId, std::vector<UseGradient>> uses;
    std::vector<TensorId> order;
    std::vector<VariableGradients> Take() && {
      std::vector<VariableGradients> result;
      for (TensorId t : order) {
        auto it = uses.find(t);
        if (it == uses.end()) continue;
        std::reverse(it->second.begin(), it->second.end());
        result.push_back({t, std::move(it->second)});
      }
      return result;
    }
  };

  // The tensors downstream of a variable that is trained, through differentiable ops only.
  void FindNeeds() {
    needs_.assign(graph_->tensors.size(), false);
    for (const Op& op : graph_->ops) {
      bool needs = IsVariable(op) && !IsFrozen(op);
      if (needs) variables_.order.push_back(op.outputs[0]);
      if (FindOpDef(op)->gradient != nullptr) {
        for (TensorId t : op.inputs) needs = needs || needs_[t];
      }
      for (TensorId t : op.outputs) needs_[t] = needs;
    }
  }

  absl::Status SeedLoss(TensorId loss) {
    const std::string name = FreeName(*graph_, graph_->tensors[loss].name + ".grad");
    const OpId like = graph_->tensors[loss].producer;
    const OpId id =
        graph_->AddOp("fill", name, {}, {{"value", 1.0}, {"dims", std::vector<int64_t>{}}});
    RETURN_IF_ERROR(Adopt(id, like, like));
    const TensorId grad = graph_->ops[id].outputs[0];
    graph_->tensors[grad].dtype = graph_->tensors[loss].dtype;
    contributions_[loss].push_back({Use{-1, 0}, grad});
    return absl::OkStatus();
  }

  // Makes ops from `first` on backward ops of `like`, placed where `at` is.
  absl::Status Adopt(OpId first, OpId like, OpId at) {
    for (OpId id = first; id < static_cast<OpId>(graph_->ops.size()); ++id) {
      Op& op = graph_->ops[id];
      op.phase = Phase::kBackward;
      op.stage = graph_->ops[at].stage;
      op.chunk = graph_->ops[at].chunk;
      op.scope = graph_->ops[like].scope;
      op.block = graph_->ops[like].block;
      RETURN_IF_ERROR(InferOutputs(graph_, op));
    }
    return absl::OkStatus();
  }

  bool SameStageAndChunk(OpId a, OpId b) const {
    return graph_->ops[a].stage == graph_->ops[b].stage &&
           graph_->ops[a].chunk == graph_->ops[b].chunk;
  }

  // The gradient of `t`: of its readers', in op order, the sum; -1 when none reaches it.
  absl::StatusOr<TensorId> SumGradients(TensorId t) {
    auto it = contributions_.find(t);
    if (it == contributions_.end()) return TensorId{-1};
    std::vector<Contribution>& parts = it->second;
    if (parts.size() == 1) return parts[0].grad;
    std::sort(parts.begin(), parts.end(), [](const Contribution& a, const Contribution& b) {
      return std::pair(a.use.op, a.use.input) < std::pair(b.use.op, b.use.input);
    });
    std::vector<TensorId> grads;
    // One sum where all its readers are: then a tensor that crosses a stage comes back but once.
    OpId at = parts[0].use.op;
    const OpId producer = graph_->tensors[t].producer;
    for (const Contribution& part : parts) {
      grads.push_back(part.grad);
      if (!SameStageAndChunk(part.use.op, at)) at = producer;
    }
    const std::string name = FreeName(*graph_, graph_->tensors[t].name + ".grad");
    const OpId sum = graph_->AddOp(kAddUp, name, std::move(grads), {});
    RETURN_IF_ERROR(Adopt(sum, producer, at));
    mirrors_.push_back({t, -1, 0, graph_->ops[sum].outputs[0]});
    return graph_->ops[sum].outputs[0];
  }

  // Appends the gradient ops of one forward op, once all its readers have been visited.
  absl::Status Visit(OpId id) {
    if (IsVariable(graph_->ops[id])) return absl::OkStatus();
    const std::vector<TensorId> inputs = graph_->ops[id].inputs, outputs = graph_->ops[id].outputs;
    if (std::none_of(outputs.begin(), outputs.end(), [this](TensorId t) { return needs_[t]; })) {
      return absl::OkStatus();
    }
    GradientContext context{*graph_, id, {}, {}};
    bool reached = false;
    for (TensorId t : outputs) {
      ASSIGN_OR_RETURN(TensorId grad, SumGradients(t));
      context.output_grads.push_back(grad);
      reached = reached || grad >= 0;
    }
    if (!reached) return absl::OkStatus();
    for (TensorId t : inputs) context.needs_grad.push_back(needs_[t]);
    const OpId first = static_cast<OpId>(graph_->ops.size());
    auto grads = FindOpDef(graph_->ops[id])->gradient(context);
    if (!grads.ok()) return Annotate(grads.status(), graph_->ops[id].name);
    RETURN_IF_ERROR(Adopt(first, id, id));
    CHECK_EQ(grads->size(), inputs.size()) << graph_->ops[id].name;
    for (int i = static_cast<int>(inputs.size()) - 1; i >= 0; --i) {
      TensorId grad = needs_[inputs[i]] ? (*grads)[i] : -1;
      // An op may hand a gradient on as it is (add does). A variable's is summed over the
      // micro-batches, which that of an activation must not be: they cannot be one tensor.
      if (grad >= 0 && IsVariable(graph_->Producer(inputs[i])) &&
          graph_->tensors[grad].producer < first) {
        ASSIGN_OR_RETURN(grad, CopyGradient(grad, id));
      }
      Record(id, i, inputs[i], grad);
    }
    return absl::OkStatus();
  }

  // The gradient `grad` again, as a tensor of its own, for a variable that `reader` reads.
  absl::StatusOr<TensorId> CopyGradient(TensorId grad, OpId reader) {
    const std::string name = FreeName(*graph_, graph_->ops[reader].name + ".dw");
    const OpId copy = graph_->AddOp(kAddUp, name, {grad}, {});
    RETURN_IF_ERROR(Adopt(copy, reader, reader));
    return graph_->ops[copy].outputs[0];
  }

  void Record(OpId op, int input, TensorId t, TensorId grad) {
    if (grad < 0) return;
    const bool same_shape = graph_->tensors[t].shape == graph_->tensors[grad].shape;
    if (same_shape && mirrored_.insert(grad).second) mirrors_.push_back({t, op, input, grad});
    if (IsVariable(graph_->Producer(t))) {
      variables_.uses[t].push_back({op, grad});
    } else {
      contributions_[t].push_back({Use{op, input}, grad});
    }
  }

  Graph* graph_;
  const size_t forward_ops_;
  std::vector<bool> needs_;
  std::map<TensorId, std::vector<Contribution>> contributions_;
  VariableTable variables_;
  std::vector<GradientMirror> mirrors_;
  std::set<TensorId> mirrored_;
};

}  // namespace

absl::StatusOr<Gradients> Differentiate(Graph* graph, TensorId loss) {
  if (loss < 0 || loss >= static_cast<TensorId>(graph->tensors.size())) {
    return InputError("graph " + graph->name, "has no loss", "set `loss` to a scalar tensor");
  }
  if (graph->tensors[loss].shape.rank() != 0) {
    return InputError(Where(graph->Producer(loss)),
                      "is the loss but has the shape " + ToString(graph->tensors[loss].shape),
                      "a loss is a scalar");
  }
  return Differentiator(graph).Run(loss);
}

}  // namespace oneflow
