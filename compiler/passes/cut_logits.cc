#include "compiler/passes/cut_logits.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/linear_row_stats_dims.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

constexpr char kLeaveOut[] = "leave --loss_pieces out";

// A loss whose logits one linear makes for it alone.
struct Head {
  OpId linear = -1, max = -1, sum = -1, pick = -1;
};

// Why a linear is no head, and how to mend it; empty if it is one.
struct Refusal {
  std::string what, mend;
};

// A piece has all columns of its rows, and products of a row and all columns are one product of
// matrices only of two dimensions each.
Refusal RefuseLinear(const Graph& graph, const Op& op) {
  if (FormName(op) != "linear") {
    return {absl::StrCat("is a ", op.kind, ", whose result is not made again in pieces"),
            absl::StrCat("let a linear make the logits, or ", kLeaveOut)};
  }
  if (op.inputs.size() > 2) {
    return {"has a bias, which logits in pieces have not",
            absl::StrCat("leave the bias out, or ", kLeaveOut)};
  }
  const Tensor& w = graph.tensors[op.inputs[1]];
  if (w.shape.rank() != 2 || !AttrBool(op, "transpose_w") || AttrInt(op, "contract", 1) != 1) {
    return {"has a weight that is not [vocabulary, width], as logits in pieces want it",
            absl::StrCat("transpose the weight and write transpose_w, or ", kLeaveOut)};
  }
  if (AttrBool(op, "wide")) {
    return {"is `wide`, which logits in pieces are not",
            absl::StrCat("leave \"wide\" out, or ", kLeaveOut)};
  }
  if (IsVariable(graph.Producer(op.inputs[0]))) {
    return {"multiplies a variable, whose gradient would add up with that of another", kLeaveOut};
  }
  return {};
}

// The head of the loss that picks at `pick`, which is a pick.
absl::StatusOr<Head> FindHead(const Graph& graph, const std::vector<std::vector<Use>>& uses,
                              OpId pick) {
  const TensorId logits = graph.ops[pick].inputs[0];
  Head head{.linear = graph.tensors[logits].producer, .pick = pick};
  const Op& linear = graph.ops[head.linear];
  if (const Refusal refusal = RefuseLinear(graph, linear); !refusal.what.empty()) {
    return InputError(Where(linear), refusal.what, refusal.mend);
  }
  for (const Use& use : uses[logits]) {
    const Op& reader = graph.ops[use.op];
    OpId* part = nullptr;
    if (reader.kind == "row_max") part = &head.max;
    if (reader.kind == "row_sum_exp") part = &head.sum;
    if (use.op == pick) part = &head.pick;
    if (part != nullptr && (*part < 0 || *part == use.op)) {
      *part = use.op;
      continue;
    }
    return InputError(Where(linear),
                      absl::StrCat("makes logits that ", reader.name, " (", reader.kind,
                                   ") reads beside the loss, so they must be whole"),
                      absl::StrCat("let a linear of its own make them, or ", kLeaveOut));
  }
  if (head.max >= 0 && head.sum >= 0) return head;
  return InputError(Where(graph.ops[pick]), "picks logits without their row_max and row_sum_exp",
                    absl::StrCat("write softmax_cross_entropy, or ", kLeaveOut));
}

absl::StatusOr<std::vector<Head>> FindHeads(const Graph& graph) {
  const std::vector<std::vector<Use>> uses = FindUses(graph);
  std::vector<Head> heads;
  for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
    if (graph.ops[id].kind != "pick") continue;
    ASSIGN_OR_RETURN(heads.emplace_back(), FindHead(graph, uses, id));
  }
  if (!heads.empty()) return heads;
  return InputError("graph " + graph.name, "has no softmax cross entropy of logits to cut",
                    kLeaveOut);
}

// Rows that a device has where the labels are split as the user or the model has it.
int64_t RowsOfDevice(const Graph& graph, const Tensor& labels) {
  int64_t parts = 1;
  for (const Mesh::Axis& axis : graph.mesh.axes) {
    const auto it = labels.constraint.find(axis.name);
    if (it != labels.constraint.end() && it->second.split()) parts *= axis.size;
  }
  return (labels.shape.elements() + parts - 1) / parts;
}

// True if all rows of a device are one piece where we choose: whole logits take few bytes then.
bool IsOnePiece(const Graph& graph, const Head& head, DType dtype) {
  const Op& linear = graph.ops[head.linear];
  const int64_t rows = RowsOfDevice(graph, graph.tensors[graph.ops[head.pick].inputs[1]]);
  return rows <= UsualLogitRows(graph.tensors[linear.inputs[0]].shape.dims.back(),
                                static_cast<int64_t>(ElementBytes(dtype)));
}

Op MakeStats(const Graph& graph, const Head& head, int64_t pieces) {
  const Op &linear = graph.ops[head.linear], &pick = graph.ops[head.pick];
  Op op = linear;
  op.kind = "linear_row_stats";
  op.name = FreeName(graph, linear.name + ".stats");
  op.inputs.push_back(pick.inputs[1]);
  op.outputs.clear();
  for (const OpId part : {head.max, head.sum, head.pick}) {
    op.outputs.push_back(graph.ops[part].outputs[0]);
  }
  op.attrs = {{"pieces", pieces}};
  if (AttrBool(pick, "ignore_negative")) op.attrs["ignore_negative"] = true;
  op.why = absl::StrCat("the loss reads ", linear.name, " a piece of the tokens at a time");
  return op;
}

}  // namespace

absl::StatusOr<std::string> CutLogits(Graph* graph, const CutLogitsOptions& options) {
  absl::StatusOr<std::vector<Head>> heads = FindHeads(*graph);
  if (!heads.ok() && options.needed) return heads.status();
  if (!heads.ok()) return absl::StrCat("loss_pieces: logits are whole: ", heads.status().message());
  if (options.pieces == 0) {
    std::erase_if(*heads, [&](const Head& h) { return IsOnePiece(*graph, h, options.dtype); });
  }
  if (heads->empty()) return "loss_pieces: logits are whole: all tokens of a device are one piece";
  std::vector<Op> ops;
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const auto part_of = std::find_if(heads->begin(), heads->end(), [id](const Head& h) {
      return id == h.max || id == h.sum || id == h.pick;
    });
    if (part_of == heads->end()) {
      ops.push_back(graph->ops[id]);
    } else if (id == std::max({part_of->max, part_of->sum, part_of->pick})) {
      ops.push_back(MakeStats(*graph, *part_of, options.pieces));
      RETURN_IF_ERROR(InferOutputs(graph, ops.back()));
    }
  }
  SetOps(graph, std::move(ops));
  return absl::StrCat("loss_pieces: no tensor holds the logits of ", heads->size(),
                      heads->size() == 1 ? " loss" : " losses");
}

}  // namespace oneflow
