// Makes the losses of routers means over a step where its labels are counted.
//
//   count_ahead -> counts (f64[parts], S(0))    for each stage with routers, once a step
//   sum_in_order(counts) -> count (f64[])       before its first micro-batch
//   route_grad(..., count)
//
// There the update divides gradients by the number of labels that count (add_optimizer.cc). What
// routers' losses add to them is no sum over labels, and enters the residual stream, so it cannot
// be told apart later: route_grad multiplies it by that number, which the data give before the
// first micro-batch. Each data part counts its own share of the step's samples, so the counts are a
// function of the data alone, exact, and the same at any degree.
#include "compiler/passes/passes.h"

#include <map>
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
        labels_(graph->tensors[labels]),
        replicated_(labels_.sbp.size(), B()) {}

  absl::Status Run() {
    for (const Op& op : graph_.ops) {
      if (HasLosses(op) && !count_on_.contains(op.stage)) RETURN_IF_ERROR(AddCount(op));
    }
    if (count_on_.empty()) return absl::OkStatus();
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops.size()); ++id) {
      Op op = graph_.ops[id];
      if (HasLosses(op)) {
        op.inputs.push_back(count_on_.at(op.stage));
        choice_.op_inputs[id].push_back(replicated_);
      }
      ops_.push_back(std::move(op));
      needs_.push_back(std::move(choice_.op_inputs[id]));
    }
    SetOps(&graph_, std::move(ops_));
    choice_.op_inputs = std::move(needs_);
    return absl::OkStatus();
  }

 private:
  // The number of labels of a step, on the stage of `router`.
  absl::Status AddCount(const Op& router) {
    const Op& data = graph_.ops[labels_.producer];
    const std::string source = AttrString(data, "source", "feed");
    if (data.kind != "input" || source == "feed") {
      return InputError(Where(data),
                        "has labels of which some do not count, and before a step it is not known "
                        "how many: the losses of " +
                            router.scope + " are means over the step",
                        "give it the source \"labels\", or leave \"balance\" and \"z\" out");
    }
    int64_t parts = 1;
    NdSbp split = replicated_;
    for (size_t axis = 0; axis < split.size(); ++axis) {
      if (!labels_.sbp[axis].split()) continue;
      split[axis] = S(0);
      parts *= graph_.mesh.axes[axis].size;
    }
    ASSIGN_OR_RETURN(const TensorId counts, Add("count_ahead", "labels.ahead", router, {}, split,
                                                {{"parts", parts},
                                                 {"sequence", labels_.shape.dims[1]},
                                                 {"documents", source == "document_labels"}}));
    ASSIGN_OR_RETURN(count_on_[router.stage],
                     Add("sum_in_order", "labels.count", router, {counts}, replicated_, {}));
    return absl::OkStatus();
  }

  absl::StatusOr<TensorId> Add(std::string kind, const std::string& wish, const Op& router,
                               std::vector<TensorId> inputs, const NdSbp& sbp, AttrMap attrs) {
    const std::string on = router.stage == 0 ? wish : wish + "@" + std::to_string(router.stage);
    Op op{.name = FreeName(graph_, on), .kind = std::move(kind)};
    op.scope = op.name;
    op.phase = Phase::kPrepare;
    op.stage = router.stage;
    op.why = "losses of routers are means over a step, whose gradients are divided by its labels";
    op.inputs = std::move(inputs);
    op.attrs = std::move(attrs);
    op.outputs = {AddTensor(&graph_, op.name)};
    RETURN_IF_ERROR(InferOutputs(&graph_, op));
    graph_.tensors[op.outputs[0]].sbp = sbp;
    needs_.emplace_back(op.inputs.size(), replicated_);
    ops_.push_back(std::move(op));
    return ops_.back().outputs[0];
  }

  Graph& graph_;
  SbpChoice& choice_;
  const Tensor labels_;
  const NdSbp replicated_;
  std::map<int, TensorId> count_on_;  // by stage
  std::vector<Op> ops_;               // of the new graph
  std::vector<std::vector<NdSbp>> needs_;
};

}  // namespace

absl::Status ScaleRouterLosses(Graph* graph, SbpChoice* choice) {
  if (FindLabelCount(*graph) < 0) return absl::OkStatus();
  const Op& count = graph->Producer(FindLabelCount(*graph));
  return Scaler(graph, choice, count.inputs[0]).Run();
}

}  // namespace oneflow
