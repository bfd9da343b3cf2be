// Makes losses that act through the gradient alone means over a step where its labels are counted.
//
//   count_ahead -> counts (f64[parts], S(0))    for each stage with such losses, once a step
//   sum_in_order(counts) -> count (f64[])       before its first micro-batch
//   route_grad(..., count)
//
// There the update divides gradients by the number of labels that count (add_optimizer.cc). What
// routers' losses add to them is no sum over labels, and enters the residual stream, so it cannot
// be told apart later: route_grad multiplies it by that number, which the data give before the
// first micro-batch. Each data part counts its own share of the step's samples, so the counts are a
// function of the data alone, exact, and the same at any degree.
//
// A loss that is gradient_only is a sum over labels of its own, of which other ones count: its
// gradient is divided by the share of its labels in those of the loss that is reported.
//
//   divide(count of next_labels, count) -> share (f64[])   once a step
//   cross_entropy_grad(..., divide(dloss, share))
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

bool HasLosses(const Op& op) {
  return op.kind == "route_grad" && (AttrDouble(op, "balance") > 0 || AttrDouble(op, "z") > 0);
}

class Scaler {
 public:
  Scaler(Graph* graph, SbpChoice* choice, TensorId labels)
      : graph_(*graph),
        choice_(*choice),
        labels_(labels),
        replicated_(graph->tensors[labels].sbp.size(), B()) {
    for (const Op& op : graph_.ops) {
      const bool counts = AttrBool(op, "gradient_only") && op.inputs.size() > 3;
      if (op.kind == "mean_nll" && counts) hidden_.insert(op.inputs[3]);
    }
  }

  absl::Status Run() {
    // What is counted comes before all that is done for a micro-batch.
    for (const Op& op : graph_.ops) {
      if (HasLosses(op)) RETURN_IF_ERROR(Count(op, labels_).status());
      if (const TensorId labels = HiddenLabels(op); labels >= 0) {
        RETURN_IF_ERROR(Share(op, labels).status());
      }
    }
    if (ops_.empty()) return absl::OkStatus();
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      Op op = graph_.ops[id];
      if (HasLosses(op)) {
        ASSIGN_OR_RETURN(const TensorId count, Count(op, labels_));
        op.inputs.push_back(count);
        choice_.op_inputs[id].push_back(replicated_);
      }
      if (const TensorId labels = HiddenLabels(op); labels >= 0) {
        ASSIGN_OR_RETURN(const TensorId share, Share(op, labels));
        ASSIGN_OR_RETURN(op.inputs.back(),
                         Add(kDivide, op.name + ".dloss", op, {op.inputs.back(), share},
                             replicated_, {}, op.phase));
      }
      ops_.push_back(std::move(op));
      needs_.push_back(std::move(choice_.op_inputs[id]));
    }
    SetOps(&graph_, std::move(ops_));
    choice_.op_inputs = std::move(needs_);
    return absl::OkStatus();
  }

 private:
  // The labels of the hidden loss whose gradient `op` makes of that of a scalar, its last input;
  // -1: it makes none.
  TensorId HiddenLabels(const Op& op) const {
    const bool scalar = !op.inputs.empty() && graph_.tensors[op.inputs.back()].shape.rank() == 0;
    if (op.phase != Phase::kBackward || !scalar) return -1;
    const auto found = std::find_if(op.inputs.begin(), op.inputs.end(),
                                    [&](TensorId t) { return hidden_.contains(t); });
    return found == op.inputs.end() ? -1 : *found;
  }

  // Of `labels` that count, so many for each of those of the reported loss, on the stage of `op`.
  absl::StatusOr<TensorId> Share(const Op& op, TensorId labels) {
    if (const auto it = shares_.find({op.stage, labels}); it != shares_.end()) return it->second;
    ASSIGN_OR_RETURN(const TensorId part, Count(op, labels));
    ASSIGN_OR_RETURN(const TensorId all, Count(op, labels_));
    ASSIGN_OR_RETURN(const TensorId share, Add(kDivide, graph_.tensors[labels].name + ".share", op,
                                               {part, all}, replicated_, {}));
    return shares_[{op.stage, labels}] = share;
  }

  // The number of labels of a step, on the stage of `reader`.
  absl::StatusOr<TensorId> Count(const Op& reader, TensorId labels) {
    if (const auto it = counts_.find({reader.stage, labels}); it != counts_.end()) {
      return it->second;
    }
    const Tensor tensor = graph_.tensors[labels];
    const Op& data = graph_.ops[tensor.producer];
    const std::string source = AttrString(data, "source", "feed");
    if (data.kind != "input" || source == "feed") {
      return InputError(Where(data),
                        "has labels of which some do not count, and before a step it is not known "
                        "how many: the losses of " +
                            reader.scope + " are means over the step",
                        HasLosses(reader)
                            ? "give it the source \"labels\", or leave \"balance\" and \"z\" out"
                            : "give it the source \"labels\", or \"next_labels\"");
    }
    int64_t parts = 1;
    NdSbp split = replicated_;
    for (size_t axis = 0; axis < split.size(); ++axis) {
      if (!tensor.sbp[axis].split()) continue;
      split[axis] = S(0);
      parts *= graph_.mesh.axes[axis].size;
    }
    AttrMap attrs = {{"parts", parts},
                     {"sequence", tensor.shape.dims[1]},
                     {"documents", source.ends_with("document_labels")}};
    if (source.starts_with("next_")) attrs["next"] = true;
    ASSIGN_OR_RETURN(const TensorId counts, Add("count_ahead", tensor.name + ".ahead", reader, {},
                                                split, std::move(attrs)));
    ASSIGN_OR_RETURN(const TensorId count, Add("sum_in_order", tensor.name + ".count", reader,
                                               {counts}, replicated_, {}));
    return counts_[{reader.stage, labels}] = count;
  }

  absl::StatusOr<TensorId> Add(std::string kind, const std::string& wish, const Op& reader,
                               std::vector<TensorId> inputs, const NdSbp& sbp, AttrMap attrs,
                               Phase phase = Phase::kPrepare) {
    const bool named = phase != Phase::kPrepare || reader.stage == 0;
    const std::string on = named ? wish : wish + "@" + std::to_string(reader.stage);
    Op op{.name = FreeName(graph_, on), .kind = std::move(kind)};
    op.scope = op.name;
    op.phase = phase;
    op.stage = reader.stage;
    if (phase != Phase::kPrepare) op.chunk = reader.chunk;
    op.why = "hidden losses are means over a step, whose gradients are divided by its labels";
    op.inputs = std::move(inputs);
    op.attrs = std::move(attrs);
    op.outputs = {AddTensor(&graph_, op.name)};
    RETURN_IF_ERROR(InferOutputs(&graph_, op));
    graph_.tensors[op.outputs[0]].sbp = sbp;
    needs_.emplace_back(op.inputs.size(), replicated_);
    ops_.push_back(std::move(op));
    return ops_.back().outputs[0];
  }

  using OnStage = std::pair<int, TensorId>;

  Graph& graph_;
  SbpChoice& choice_;
  const TensorId labels_;  // of the loss that is reported
  const NdSbp replicated_;
  std::set<TensorId> hidden_;                    // labels of hidden losses
  std::map<OnStage, TensorId> counts_, shares_;  // of labels on a stage
  std::vector<Op> ops_;                          // of the new graph
  std::vector<std::vector<NdSbp>> needs_;
};

}  // namespace

absl::Status ScaleHiddenLosses(Graph* graph, SbpChoice* choice) {
  if (FindLabelCount(*graph) < 0) return absl::OkStatus();
  const Op& count = graph->Producer(FindLabelCount(*graph));
  return Scaler(graph, choice, count.inputs[0]).Run();
}

}  // namespace oneflow
