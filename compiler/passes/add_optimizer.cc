// Appends the update of a step, all in Phase::kUpdate. For every logical variable with a gradient,
// in order of first appearance:
//
//   sum_uses      the gradients of its uses, in op order (left out for a single use)
//   sum_squares   once, on the lowest stage that holds it; with `split_dim` separately for each
//                 index of that dimension, and their sum_in_order
//   adamw         on each stage that holds it, with its own m and v ("wte/m", "wte@3/m");
//                 next_adamw if they have several versions, as the variable says
//   even_bias     instead of these, for a router's bias that a rule moves (route's `bias_rate`) by
//                 the choices of the step (count_choices.cc); or next_even_bias
//
// On the stage of the loss it appends one global_norm ("grad_norm") over all sums of squares in
// variable order, which the other stages receive. If labels are counted (count_labels), gradients
// are sums: the norm is divided by the count, and adamw reads the count. A gradient passes from the
// backward phase to the update phase by accumulating over the micro-batches, so everything here
// fires once a step.
#include "compiler/passes/passes.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/moved_bias.h"

namespace oneflow {
namespace {

struct Replica {
  OpId op = -1;
  TensorId grad = -1;  // summed over the uses, on the replica's stage or about to be sent there
};

struct LogicalVariable {
  std::string name;
  std::vector<Replica> replicas;  // by stage, lowest first
  std::vector<UseGradient> uses;  // over all replicas, in op order
};

class OptimizerBuilder {
 public:
  OptimizerBuilder(Graph* graph, const OptimizerOptions& options)
      : graph_(graph), options_(options) {}

  absl::Status Run(const Gradients& gradients) {
    Collect(gradients);
    count_ = FindLabelCount(*graph_);
    std::vector<TensorId> squares;
    for (LogicalVariable& variable : variables_) {
      RETURN_IF_ERROR(SumUses(&variable));
      if (Lags()) continue;
      ASSIGN_OR_RETURN(const TensorId sum, AddSquares(variable));
      squares.push_back(sum);
    }
    if (!Lags()) RETURN_IF_ERROR(AddNorm(squares));
    for (const LogicalVariable& variable : variables_) {
      for (const Replica& replica : variable.replicas) RETURN_IF_ERROR(Update(variable, replica));
    }
    return MoveBiases();
  }

 private:
  bool Lags() const { return !options_.versions.empty(); }

  void Collect(const Gradients& gradients) {
    for (OpId id = 0; id < static_cast<OpId>(graph_->ops.size()); ++id) {
      const Op& op = graph_->ops[id];
      if (!IsVariable(op)) continue;
      const std::string name = VariableName(op);
      auto same = [&name](const LogicalVariable& v) { return v.name == name; };
      auto it = std::find_if(variables_.begin(), variables_.end(), same);
      if (it == variables_.end()) it = variables_.insert(it, LogicalVariable{name, {}, {}});
      it->replicas.push_back({id, -1});
      for (const VariableGradients& g : gradients.variables) {
        if (g.variable != op.outputs[0]) continue;
        it->uses.insert(it->uses.end(), g.uses.begin(), g.uses.end());
      }
    }
    std::erase_if(variables_, [](const LogicalVariable& v) { return v.uses.empty(); });
    for (LogicalVariable& v : variables_) {
      auto by_op = [](const UseGradient& a, const UseGradient& b) { return a.use < b.use; };
      std::stable_sort(v.uses.begin(), v.uses.end(), by_op);
      std::stable_sort(v.replicas.begin(), v.replicas.end(),
                       [this](const Replica& a, const Replica& b) {
                         return graph_->ops[a.op].stage < graph_->ops[b.op].stage;
                       });
    }
  }

  // Appends an update op on the stage and in the scope of `like`.
  absl::StatusOr<OpId> Add(std::string kind, std::string name, std::vector<TensorId> inputs,
                           AttrMap attrs, const Op& like, int outputs = 1) {
    const int stage = like.stage, block = like.block;  // `like` may move when the ops grow
    std::string scope = like.scope;
    const OpId id = graph_->AddOp(std::move(kind), std::move(name), std::move(inputs),
                                  std::move(attrs), outputs);
    Op& op = graph_->ops[id];
    op.phase = Phase::kUpdate;
    op.stage = stage;
    op.block = block;
    op.scope = std::move(scope);
    if (!IsVariable(op)) RETURN_IF_ERROR(InferOutputs(graph_, op));
    return id;
  }

  absl::Status SumUses(LogicalVariable* variable) {
    std::vector<TensorId> grads;
    for (const UseGradient& use : variable->uses) grads.push_back(use.grad);
    for (Replica& replica : variable->replicas) {
      replica.grad = grads[0];
      if (grads.size() == 1) continue;
      ASSIGN_OR_RETURN(OpId id, Add("sum_uses", graph_->ops[replica.op].name + "/grad", grads, {},
                                    graph_->ops[replica.op]));
      replica.grad = graph_->ops[id].outputs[0];
    }
    return absl::OkStatus();
  }

  // The sum of the squares of a gradient. That of a variable that can be split is summed for each
  // index of the dimension that a split takes, and then over these: the same sums, split or not.
  absl::StatusOr<TensorId> AddSquares(const LogicalVariable& variable) {
    const Replica& lowest = variable.replicas.front();
    const Op like = graph_->ops[lowest.op];
    const std::string name = variable.name + "/sum_squares";
    const bool apart = like.attrs.find("split_dim") != like.attrs.end();
    AttrMap attrs;
    if (apart) attrs["dim"] = AttrInt(like, "split_dim");
    ASSIGN_OR_RETURN(OpId id, Add("sum_squares", apart ? variable.name + "/squares" : name,
                                  {lowest.grad}, std::move(attrs), like));
    if (apart) {
      ASSIGN_OR_RETURN(id, Add("sum_in_order", name, {graph_->ops[id].outputs[0]}, {}, like));
    }
    return graph_->ops[id].outputs[0];
  }

  // One, where the loss is reported: a norm on each stage would bring every sum to every stage.
  absl::Status AddNorm(const std::vector<TensorId>& squares) {
    Op like;
    like.stage = graph_->Producer(graph_->loss).stage;
    like.scope = FreeName(*graph_, "grad_norm");
    ASSIGN_OR_RETURN(OpId id, Add("global_norm", like.scope, squares, {}, like));
    norm_ = graph_->ops[id].outputs[0];
    if (count_ < 0) return absl::OkStatus();
    like.scope = FreeName(*graph_, "grad_norm.mean");
    ASSIGN_OR_RETURN(id, Add(kDivide, like.scope, {norm_, count_}, {}, like));
    norm_ = graph_->ops[id].outputs[0];
    return absl::OkStatus();
  }

  // A state of the optimizer: zeros, and lying as the variable does.
  absl::StatusOr<TensorId> AddState(const LogicalVariable& variable, OpId replica,
                                    const std::string& suffix) {
    AttrMap attrs = {{"init", std::string("zeros")}, {"variable", variable.name + suffix}};
    ASSIGN_OR_RETURN(OpId id, Add("variable", graph_->ops[replica].name + suffix, {},
                                  std::move(attrs), graph_->ops[replica]));
    const TensorId state = graph_->ops[id].outputs[0];
    const Tensor& w = graph_->tensors[graph_->ops[replica].outputs[0]];
    Tensor& tensor = graph_->tensors[state];
    tensor.shape = w.shape;
    tensor.dtype = w.dtype;
    tensor.constraint = w.constraint;
    return state;
  }

  absl::Status Update(const LogicalVariable& variable, const Replica& replica) {
    const TensorId w = graph_->ops[replica.op].outputs[0];
    const Op& op = graph_->ops[replica.op];
    const bool decay = AttrBool(op, "decay", graph_->tensors[w].shape.rank() >= 2);
    const std::string name = op.name + "/adamw";
    ASSIGN_OR_RETURN(TensorId m, AddState(variable, replica.op, "/m"));
    ASSIGN_OR_RETURN(TensorId v, AddState(variable, replica.op, "/v"));
    std::vector<TensorId> inputs = {w, m, v, replica.grad};
    const bool several = SetVersions(&graph_->ops[replica.op]);
    if (several) inputs = {m, v, w, replica.grad};
    if (!Lags() && options_.wait_for_norm) inputs.push_back(norm_);
    AttrMap attrs = {{"decay", decay}};
    if (count_ >= 0) {
      inputs.push_back(count_);
      attrs["counted"] = true;
    }
    return Add(several ? "next_adamw" : "adamw", name, std::move(inputs), std::move(attrs),
               graph_->ops[replica.op], 3)
        .status();
  }

  // The biases of routers, which have no gradient: each by what the step chose.
  absl::Status MoveBiases() {
    const std::vector<Op> ops = graph_->ops;
    for (const Op& route : ops) {
      const TensorId bias = FindMovedBias(route);
      if (bias < 0) continue;
      Op& variable = graph_->ops[graph_->tensors[bias].producer];
      if (IsFrozen(variable)) continue;
      const bool several = SetVersions(&variable);
      std::vector<TensorId> inputs = {bias, FindChoiceCount(*graph_, route)};
      if (!Lags() && options_.wait_for_norm) inputs.push_back(norm_);
      RETURN_IF_ERROR(Add(several ? "next_even_bias" : "even_bias", variable.name + "/even",
                          std::move(inputs), {{"rate", AttrDouble(route, "bias_rate")}}, variable)
                          .status());
    }
    return absl::OkStatus();
  }

  // True if the stage of a variable holds several versions of it.
  bool SetVersions(Op* variable) const {
    if (!Lags() || options_.versions[variable->stage].versions == 1) return false;
    variable->attrs["lag"] = options_.versions[variable->stage].lag;
    variable->attrs["versions"] = options_.versions[variable->stage].versions;
    return true;
  }

  Graph* graph_;
  const OptimizerOptions& options_;
  std::vector<LogicalVariable> variables_;  // in order of first appearance
  TensorId norm_ = -1;
  TensorId count_ = -1;  // of labels, where gradients are sums over them
};

}  // namespace

absl::Status AddOptimizer(Graph* graph, const Gradients& gradients,
                          const OptimizerOptions& options) {
  CHECK(!gradients.variables.empty());
  return OptimizerBuilder(graph, options).Run(gradients);
}

}  // namespace oneflow
