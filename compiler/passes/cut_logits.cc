#include "compiler/passes/cut_logits.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/op/linear_row_stats_dims.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

constexpr char kLeaveOut[] = "leave --loss_pieces out";
// Begins the note of a graph that stays as it is.
constexpr char kWhole[] = "loss_pieces: logits are whole: ";

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

// Why logits that could be cut take less memory whole; empty where they do not. Cut, they need the
// whole head on each device, and its whole gradient.
std::string WhyWhole(const Graph& graph, const Head& head, DType dtype) {
  const Op& linear = graph.ops[head.linear];
  if (const std::string axis = AxisOfVocabulary(graph, linear); !axis.empty()) {
    return absl::StrCat("axis ", axis, " splits their vocabulary");
  }
  const int64_t rows = RowsOfDevice(graph, graph.tensors[graph.ops[head.pick].inputs[1]]);
  const int64_t width = graph.tensors[linear.inputs[0]].shape.dims.back();
  const auto element_bytes = static_cast<int64_t>(ElementBytes(dtype));
  return rows > UsualLogitRows(width, element_bytes) ? "" : "all tokens of a device are one piece";
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

// Cuts the heads, each at the last of the three ops that read its logits.
absl::Status Cut(Graph* graph, const std::vector<Head>& heads, int64_t pieces) {
  std::vector<Op> ops;
  std::vector<TensorId> logits;
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    const auto part_of = std::find_if(heads.begin(), heads.end(), [id](const Head& h) {
      return id == h.linear || id == h.max || id == h.sum || id == h.pick;
    });
    if (part_of == heads.end()) {
      ops.push_back(graph->ops[id]);
    } else if (id == std::max({part_of->max, part_of->sum, part_of->pick})) {
      ops.push_back(MakeStats(*graph, *part_of, pieces));
      RETURN_IF_ERROR(InferOutputs(graph, ops.back()));
    } else if (id == part_of->linear) {
      logits.push_back(graph->ops[id].outputs[0]);
    }
  }
  ReplaceOps(graph, std::move(ops), std::move(logits));
  return absl::OkStatus();
}

// The note of heads that are cut.
std::string CutNote(const Graph& graph, const std::vector<Head>& heads) {
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

absl::StatusOr<std::string> CutLogits(Graph* graph, const CutLogitsOptions& options) {
  absl::StatusOr<std::vector<Head>> heads = FindHeads(*graph);
  if (!heads.ok() && options.needed) return heads.status();
  if (!heads.ok()) return absl::StrCat(kWhole, heads.status().message());
  if (options.pieces == 0) {
    std::string why;
    std::erase_if(*heads, [&](const Head& head) {
      const std::string of_head = WhyWhole(*graph, head, options.dtype);
      if (!of_head.empty()) why = of_head;
      return !of_head.empty();
    });
    if (heads->empty()) return kWhole + why;
  }
  std::string note = CutNote(*graph, *heads);
  RETURN_IF_ERROR(Cut(graph, *heads, options.pieces));
  return note;
}

}  // namespace oneflow
