// Replaces composite ops by primitive ones, so that the later passes see each sum and each maximum
// over a dimension that may be split.
//
//   softmax_cross_entropy "loss"  ->  row_max "loss.max", row_sum_exp "loss.sum", pick "loss.pick",
//                                     mean_nll "loss"; where it ignores negative labels,
//                                     count_labels "loss.count", too
//   causal_attention "attn"       ->  split_qkv "attn.split", attention "attn"
//   linear "fc" with a bias whose contracted dimension is constrained to a split (row-parallel)
//                                 ->  linear "fc.product", add_bias "fc"
//
// The tensors of the composite ops keep their names and ids; the new ops bear their scope.
#include "compiler/passes/passes.h"

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// An op that takes part in replacing `original`.
Op MakePart(const Op& original, std::string kind, std::string name) {
  Op op;
  op.kind = std::move(kind);
  op.name = std::move(name);
  op.stage = original.stage;
  op.chunk = original.chunk;
  op.block = original.block;
  op.phase = original.phase;
  op.scope = original.scope;
  op.written_at = original.written_at;
  op.recompute = original.recompute;
  op.why = original.name + " is a " + original.kind;
  return op;
}

// Appends to `ops` an op that takes part in replacing `original`; its output is `output`, or a new
// tensor of the op's name when that is -1. Returns the output.
absl::StatusOr<TensorId> Emit(Graph* graph, std::vector<Op>* ops, const Op& original,
                              std::string kind, std::string name, std::vector<TensorId> inputs,
                              AttrMap attrs, TensorId output = -1) {
  Op op = MakePart(original, std::move(kind), std::move(name));
  op.inputs = std::move(inputs);
  op.attrs = std::move(attrs);
  op.outputs = {output >= 0 ? output : AddTensor(graph, op.name)};
  RETURN_IF_ERROR(InferOutputs(graph, op));
  ops->push_back(std::move(op));
  return ops->back().outputs[0];
}

// Split "attn.split" and attention "attn".
absl::Status DecomposeAttention(Graph* graph, const Op& op, std::vector<Op>* ops) {
  Op split = MakePart(op, "split_qkv", FreeName(*graph, op.name + ".split"));
  split.inputs = {op.inputs[0]};
  split.attrs["parts_first"] = true;
  for (const char* part : {"", ":1", ":2"}) {
    split.outputs.push_back(AddTensor(graph, split.name + part));
  }
  RETURN_IF_ERROR(InferOutputs(graph, split));
  Op attention = MakePart(op, "attention", op.name);
  attention.inputs = split.outputs;
  attention.inputs.insert(attention.inputs.end(), op.inputs.begin() + 1, op.inputs.end());
  attention.outputs = op.outputs;
  RETURN_IF_ERROR(Annotate(InferOutputs(graph, attention), Where(op)));
  ops->push_back(std::move(split));
  ops->push_back(std::move(attention));
  return absl::OkStatus();
}

absl::Status DecomposeCrossEntropy(Graph* graph, const Op& op, int64_t micro_batches,
                                   std::vector<Op>* ops) {
  const TensorId logits = op.inputs[0], labels = op.inputs[1];
  const int64_t rows = graph->tensors[labels].shape.elements();
  const bool ignores = AttrBool(op, "ignore_negative");
  const int64_t unlabelled = AttrInt(op, "unlabelled");
  const int64_t length = graph->tensors[labels].shape.dims.back();
  const double labelled = static_cast<double>(rows) / static_cast<double>(length) *
                          static_cast<double>(length - unlabelled);
  const double scale = AttrDouble(op, "factor", 1) *
                       (ignores ? 1.0 : 1.0 / (labelled * static_cast<double>(micro_batches)));
  ASSIGN_OR_RETURN(TensorId max, Emit(graph, ops, op, "row_max", op.name + ".max", {logits}, {}));
  ASSIGN_OR_RETURN(TensorId sum,
                   Emit(graph, ops, op, "row_sum_exp", op.name + ".sum", {logits, max}, {}));
  AttrMap attrs;
  if (ignores || unlabelled > 0) attrs["ignore_negative"] = true;
  ASSIGN_OR_RETURN(TensorId picked,
                   Emit(graph, ops, op, "pick", op.name + ".pick", {logits, labels}, attrs));
  std::vector<TensorId> inputs = {max, sum, picked};
  if (ignores || unlabelled > 0) inputs.push_back(labels);
  const bool hidden = AttrBool(op, "gradient_only");
  if (ignores && !hidden) {
    RETURN_IF_ERROR(
        Emit(graph, ops, op, "count_labels", FreeName(*graph, op.name + ".count"), {labels}, {})
            .status());
  }
  AttrMap of_loss = {{"scale", scale}};
  if (hidden) of_loss["gradient_only"] = true;
  return Emit(graph, ops, op, "mean_nll", op.name, std::move(inputs), std::move(of_loss),
              op.outputs[0])
      .status();
}

// The factor of losses that an op has for each run of its positions: their mean over a step.
double LossScale(const Graph& graph, const Op& op, int64_t micro_batches) {
  const Dims& tokens = graph.tensors[op.inputs[0]].shape.dims;
  const int64_t run = AttrInt(op, "run") > 0 ? AttrInt(op, "run") : tokens[1];
  const double runs =
      static_cast<double>(tokens[0] * tokens[1] * micro_batches) / static_cast<double>(run);
  return 1 / runs;
}

// A loss that is divided by the number of its labels is the only one that is reported: another
// would be divided by that number, too.
absl::Status CheckLosses(const Graph& graph) {
  int losses = 0;
  const Op *ignores = nullptr, *hidden = nullptr, *counts_all = nullptr;
  for (const Op& op : graph.ops) {
    if (op.kind != "softmax_cross_entropy") continue;
    const bool reported = !AttrBool(op, "gradient_only");
    losses += reported ? 1 : 0;
    if (AttrBool(op, "ignore_negative")) {
      (reported ? ignores : hidden) = &op;
    } else if (!reported) {
      counts_all = &op;
    }
  }
  if (counts_all != nullptr && ignores != nullptr) {
    return InputError(Where(*counts_all),
                      "takes all labels, and the reported loss those that count",
                      "give \"ignore_negative\" to both");
  }
  if (hidden != nullptr && ignores == nullptr) {
    return InputError(Where(*hidden), "ignores negative labels, and the reported loss does not",
                      "give \"ignore_negative\" to both");
  }
  if (ignores == nullptr || losses == 1) return absl::OkStatus();
  return InputError(Where(*ignores), "ignores negative labels, and is one of several losses",
                    "leave \"ignore_negative\" out, or the other losses");
}

// True if a constraint splits a dimension that `op` (a linear) sums over, on an axis of the mesh.
// Each part of such a product lacks the others' terms, so the bias must be added after their sum.
bool SplitsContractedDim(const Graph& graph, const Op& op) {
  const Tensor& x = graph.tensors[op.inputs[0]];
  const Tensor& w = graph.tensors[op.inputs[1]];
  const int contract = static_cast<int>(AttrInt(op, "contract", 1));
  const bool transposed = AttrBool(op, "transpose_w");
  auto on_mesh = [&graph](const std::string& axis) {
    for (const Mesh::Axis& a : graph.mesh.axes) {
      if (a.size > 1 && (a.name == axis || a.name.rfind(axis + ".", 0) == 0)) return true;
    }
    return false;
  };
  for (const auto& [axis, sbp] : x.constraint) {
    if (sbp.split() && sbp.dim >= x.shape.rank() - contract && on_mesh(axis)) return true;
  }
  for (const auto& [axis, sbp] : w.constraint) {
    const bool contracted = transposed ? sbp.dim >= w.shape.rank() - contract : sbp.dim < contract;
    if (sbp.split() && contracted && on_mesh(axis)) return true;
  }
  return false;
}

absl::Status SeparateBias(Graph* graph, const Op& op, std::vector<Op>* ops) {
  ASSIGN_OR_RETURN(TensorId product,
                   Emit(graph, ops, op, "linear", FreeName(*graph, op.name + ".product"),
                        {op.inputs[0], op.inputs[1]}, op.attrs));
  return Emit(graph, ops, op, "add_bias", op.name, {product, op.inputs[2]}, {}, op.outputs[0])
      .status();
}

}  // namespace

absl::Status Decompose(Graph* graph, int64_t micro_batches) {
  RETURN_IF_ERROR(CheckLosses(*graph));
  std::vector<Op> ops;
  ops.reserve(graph->ops.size());
  for (const Op& op : graph->ops) {
    if (op.kind == "softmax_cross_entropy") {
      RETURN_IF_ERROR(DecomposeCrossEntropy(graph, op, micro_batches, &ops));
    } else if (op.kind == "causal_attention") {
      RETURN_IF_ERROR(DecomposeAttention(graph, op, &ops));
    } else if (FormName(op) == "linear" && op.inputs.size() == 3 &&
               SplitsContractedDim(*graph, op)) {
      RETURN_IF_ERROR(SeparateBias(graph, op, &ops));
    } else {
      ops.push_back(op);
      if (AttrDouble(op, "balance") > 0 || AttrDouble(op, "z") > 0) {
        ops.back().attrs["loss_scale"] = LossScale(*graph, op, micro_batches);
      }
    }
  }
  SetOps(graph, std::move(ops));
  return absl::OkStatus();
}

}  // namespace oneflow
