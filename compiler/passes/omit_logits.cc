// Computes logits in pieces: fuses a loss and the head before it, which together are
//
//   linear "logits", row_max "loss.max", row_sum_exp "loss.sum", pick "loss.pick"
//     ->  linear_row_stats "logits.stats"
//
// or these with a soft_cap of the logits, which becomes the attribute `cap`, so that no tensor
// holds the logits, nor their gradient. The kernels make one piece of their rows at a time in a
// workspace, in the backward once more (oneflow_core/op/linear_row_stats.cc). The tensors of the
// last three keep their names.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"
#include "compiler/graph/row_stats.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/op/linear_row_stats_dims.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// Begins the note of a graph that stays as it is.
constexpr char kKept[] = "loss_pieces: logits are a tensor: ";

// A loss whose logits one linear makes for it alone, and perhaps a soft_cap of them.
struct Head {
  OpId linear = -1, cap = -1;
  RowStats stats;
  bool Contains(OpId id) const {
    return id == linear || id == cap || id == stats.max || id == stats.sum || id == stats.pick;
  }
};

// An input error of the op that makes the logits. `hint`: how to make it a head.
absl::Status Refuse(const Op& op, std::string_view what, std::string_view hint) {
  const char* leave_out = "leave --loss_pieces out";
  return InputError(Where(op), what,
                    hint.empty() ? leave_out : absl::StrCat(ToAbsl(hint), ", or ", leave_out));
}

// A piece has all columns of its rows, each from a row of the weight. A linear is told by its row:
// a product with a weight that may be transposed.
absl::Status CheckLinear(const Graph& graph, const Op& op) {
  const OpDef& def = *FindOpDef(op);
  if (!def.product || !def.then.empty()) {
    return Refuse(op, absl::StrCat("is a ", op.kind, ", whose result is not made in pieces"),
                  "let a linear make the logits");
  }
  if (op.inputs.size() > 2) {
    return Refuse(op, "has a bias, which logits in pieces have not", "leave the bias out");
  }
  const Tensor& w = graph.tensors[op.inputs[1]];
  if (w.shape.rank() != 2 || !AttrBool(op, "transpose_w") || AttrInt(op, "contract", 1) != 1) {
    return Refuse(op, "has a weight that is not [vocabulary, width], as logits in pieces want it",
                  "transpose the weight and write transpose_w");
  }
  if (AttrBool(op, "wide")) {
    return Refuse(op, "is `wide`, which logits in pieces are not", "leave \"wide\" out");
  }
  if (IsVariable(graph.Producer(op.inputs[0]))) {
    return Refuse(op, "multiplies a variable, whose gradient would add up with that of another",
                  "");
  }
  return absl::OkStatus();
}

absl::StatusOr<Head> FindHead(const Graph& graph, const std::vector<std::vector<Use>>& uses,
                              const RowStats& stats) {
  const TensorId logits = graph.ops[stats.pick].inputs[0];
  Head head{.linear = graph.tensors[logits].producer, .stats = stats};
  if (graph.ops[head.linear].kind == "soft_cap") {
    head.cap = head.linear;
    head.linear = graph.tensors[graph.ops[head.cap].inputs[0]].producer;
  }
  const Op& linear = graph.ops[head.linear];
  RETURN_IF_ERROR(CheckLinear(graph, linear));
  for (const TensorId made : {linear.outputs[0], logits}) {
    for (const Use& use : uses[made]) {
      if (head.Contains(use.op)) continue;
      const Op& reader = graph.ops[use.op];
      return Refuse(linear,
                    absl::StrCat("makes logits that ", reader.name, " (", reader.kind,
                                 ") reads beside the loss, so a tensor must hold them"),
                    "let a linear of its own make them");
    }
  }
  return head;
}

absl::StatusOr<std::vector<Head>> FindHeads(const Graph& graph) {
  const std::vector<std::vector<Use>> uses = FindUses(graph);
  std::vector<Head> heads;
  for (const RowStats& stats : FindRowStats(graph, uses)) {
    ASSIGN_OR_RETURN(heads.emplace_back(), FindHead(graph, uses, stats));
  }
  if (!heads.empty()) return heads;
  return InputError("graph " + graph.name, "has no softmax cross entropy of logits",
                    "leave --loss_pieces out");
}

// The parts into which a constraint splits a dimension: `of_axis` is the constraint's, of an axis
// or of all factors of one (data.0, data.1).
int64_t CountParts(const Mesh& mesh, std::string_view of_axis) {
  int64_t parts = 1;
  for (const Mesh::Axis& axis : mesh.axes) {
    const bool factor = axis.name.starts_with(absl::StrCat(ToAbsl(of_axis), "."));
    if (axis.name == of_axis || factor) parts *= axis.size;
  }
  return parts;
}

// Rows that a device has where the labels are split as the user or the model has it.
int64_t RowsOfDevice(const Graph& graph, const Tensor& labels) {
  int64_t parts = 1;
  for (const auto& [axis, sbp] : labels.constraint) {
    if (sbp.split()) parts *= CountParts(graph.mesh, axis);
  }
  return (labels.shape.elements() + parts - 1) / parts;
}

// The axis on which the user or the model splits the vocabulary; empty if there is none.
std::string AxisOfVocabulary(const Graph& graph, const Op& linear) {
  for (const auto& [axis, sbp] : graph.tensors[linear.inputs[1]].constraint) {
    if (sbp.split() && sbp.dim == 0 && CountParts(graph.mesh, axis) > 1) return axis;
  }
  return "";
}

// Why logits take less memory as a tensor; empty where they do not. In pieces they need all of the
// head on each device, and all of its gradient.
std::string ReasonToKeep(const Graph& graph, const Head& head, DType dtype) {
  const Op& linear = graph.ops[head.linear];
  if (const std::string axis = AxisOfVocabulary(graph, linear); !axis.empty()) {
    return absl::StrCat("axis ", axis, " splits their vocabulary");
  }
  const int64_t rows = RowsOfDevice(graph, graph.tensors[graph.ops[head.stats.pick].inputs[1]]);
  const int64_t width = graph.tensors[linear.inputs[0]].shape.dims.back();
  const auto element_bytes = static_cast<int64_t>(ElementBytes(dtype));
  return rows > UsualLogitRows(width, element_bytes) ? "" : "all tokens of a device are one piece";
}

Op MakeStats(const Graph& graph, const Head& head, int64_t pieces) {
  const Op &linear = graph.ops[head.linear], &pick = graph.ops[head.stats.pick];
  Op op = linear;
  op.kind = "linear_row_stats";
  op.name = FreeName(graph, linear.name + ".stats");
  op.inputs.push_back(pick.inputs[1]);
  op.outputs.clear();
  for (const OpId part : {head.stats.max, head.stats.sum, head.stats.pick}) {
    op.outputs.push_back(graph.ops[part].outputs[0]);
  }
  op.attrs = {{"pieces", pieces}};
  if (AttrBool(pick, "ignore_negative")) op.attrs["ignore_negative"] = true;
  if (head.cap >= 0) op.attrs["cap"] = AttrDouble(graph.ops[head.cap], "cap");
  op.why = absl::StrCat("the loss reads ", linear.name, " a piece of the tokens at a time");
  return op;
}

// Makes one op of each head, at the last of the three ops that read its logits.
absl::Status Replace(Graph* graph, const std::vector<Head>& heads, int64_t pieces) {
  std::vector<Op> ops;
  std::vector<TensorId> logits;
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const auto head =
        std::find_if(heads.begin(), heads.end(), [id](const Head& h) { return h.Contains(id); });
    if (head == heads.end()) {
      ops.push_back(graph->ops[id]);
    } else if (id == head->stats.last()) {
      ops.push_back(MakeStats(*graph, *head, pieces));
      RETURN_IF_ERROR(InferOutputs(graph, ops.back()));
    } else if (id == head->linear || id == head->cap) {
      logits.push_back(graph->ops[id].outputs[0]);
    }
  }
  ReplaceOps(graph, std::move(ops), std::move(logits));
  return absl::OkStatus();
}

// The note of heads whose logits are omitted.
std::string OmittedNote(const Graph& graph, const std::vector<Head>& heads) {
  std::string note = "loss_pieces: no tensor holds the logits of";
  for (const Head& head : heads) {
    const Op& linear = graph.ops[head.linear];
    absl::StrAppend(&note, &head == heads.data() ? " " : ", ", linear.name);
    const std::string axis = AxisOfVocabulary(graph, linear);
    if (axis.empty()) continue;
    absl::StrAppend(&note, ", which axis ", axis, " would split: each device has all of ",
                    graph.tensors[linear.inputs[1]].name);
  }
  return note;
}

}  // namespace

absl::StatusOr<std::string> OmitLogits(Graph* graph, const OmitLogitsOptions& options) {
  absl::StatusOr<std::vector<Head>> heads = FindHeads(*graph);
  if (!heads.ok() && options.needed) return heads.status();
  if (!heads.ok()) return absl::StrCat(kKept, heads.status().message());
  if (options.pieces == 0) {
    std::string why;
    std::erase_if(*heads, [&](const Head& head) {
      const std::string of_head = ReasonToKeep(*graph, head, options.dtype);
      if (!of_head.empty()) why = of_head;
      return !of_head.empty();
    });
    if (heads->empty()) return kKept + why;
  }
  std::string note = OmittedNote(*graph, *heads);
  RETURN_IF_ERROR(Replace(graph, *heads, options.pieces));
  return note;
}

}  // namespace oneflow
