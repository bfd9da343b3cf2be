// Makes positions data: inputs beside the tokens, which tell ops the positions of their tokens. A
// graph needs them if documents are kept apart, or if an axis splits positions.
//
//   new input                        positions[b, t]; with documents documents[b, t], too
//   attention, causal_attention      take those of queries and of keys
//   rotary(x)                        rotary(x, positions)
//   positional_embedding(x, table)   add(x, embedding(table, positions))
//
// With documents no op looks from one document into another, positions begin anew with each, and no
// label belongs to another document than its token. The token that ends a document is no property
// of the graph: the run's data give it (RunContext).
//
//   input "labels", "next_labels"    source document_labels, next_document_labels: -1 where the
//                                    label is of another document
//   softmax_cross_entropy            ignore_negative
//
// If axes split positions over p devices, the first would compute least of causal attention and the
// last most. So inputs of tokens get the attribute `mirrored` = p, and come in the order of
// tensor/mirrored.h. The ops that follow are correct in any order of tokens, because they read the
// positions. Exceptions:
//
//   - a dropout mask goes by the index of an element, and a run feeds data in the order of
//     positions: graphs with either are not mirrored, and a note says so;
//   - tokens that queue for experts must have each run of theirs on one device.
#include "compiler/passes/passes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/rewrite.h"
#include "compiler/sbp/sbp_constraint.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/mirrored.h"

namespace oneflow {
namespace {

bool IsTokens(const Op& op) { return op.kind == "input" && AttrString(op, "source") == "tokens"; }

// True if axis `axis` of the mesh splits the positions of a tensor [batch, positions, ...].
bool SplitsPositions(const Graph& graph, TensorId t, int axis) {
  return ConstraintOn(graph.tensors[t], graph.mesh, axis) == S(1);
}

// The input from which positions and documents are read: the only one of tokens.
absl::StatusOr<const Op*> FindTokens(const Graph& graph) {
  const Op* tokens = nullptr;
  for (const Op& op : graph.ops) {
    if (!IsTokens(op)) continue;
    if (tokens != nullptr) {
      return InputError(Where(op),
                        "is the second input of tokens, so it is not known which has "
                        "the positions and documents that are asked for",
                        "leave out --documents and axes that split positions, or one of the "
                        "inputs");
    }
    tokens = &op;
  }
  if (tokens != nullptr) return tokens;
  return InputError("graph " + graph.name, "reads no tokens, so it has no documents",
                    "leave --documents out");
}

// The op for which tokens must come in the order of their positions; null: there is none.
const Op* FindOrdered(const Graph& graph) {
  const auto found = std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
    return FindOpDef(op)->random ||
           (op.kind == "input" && AttrString(op, "source", "feed") == "feed");
  });
  return found == graph.ops.end() ? nullptr : &*found;
}

// Each device has entire runs of the tokens that queue for experts.
absl::Status ExpectRuns(const Graph& graph, const std::vector<int32_t>& positions, int parts) {
  const int64_t longest = LongestRun(positions, parts);
  for (const Op& op : graph.ops) {
    if (op.kind != "route") continue;
    const int64_t run = AttrInt(op, "run", static_cast<int64_t>(positions.size()));
    if (longest % run == 0) continue;
    return InputError(Where(op),
                      absl::StrCat("queues tokens in runs of ", run, ", which ", parts,
                                   " parts of the sequence of ", positions.size(), " would cut"),
                      absl::StrCat("make it of runs of ", longest,
                                   " (`oneflow model llama --routed_positions=", longest,
                                   "`) or of a divisor, or split positions less"));
  }
  return absl::OkStatus();
}

class Giver {
 public:
  Giver(Graph* graph, bool documents, const Op& tokens)
      : graph_(*graph), documents_asked_(documents), tokens_(tokens.outputs[0]) {}

  absl::Status Run(std::vector<std::string>* notes) {
    RETURN_IF_ERROR(ChooseOrder(notes));
    positions_ = AddInput("positions");
    if (documents_asked_) documents_ = AddInput("documents");
    for (const Op& op : graph_.ops) RETURN_IF_ERROR(Rewrite(op));  // copies: names stay taken
    SetOps(&graph_, std::move(ops_));
    if (documents_asked_) MaskLabels(&graph_);
    return CheckAndInferShapes(&graph_);
  }

 private:
  absl::Status ChooseOrder(std::vector<std::string>* notes) {
    const int parts = PositionParts(graph_);
    if (parts == 1) return absl::OkStatus();
    const int64_t length = graph_.tensors[tokens_].shape.dims[1];
    const Op* ordered = FindOrdered(graph_);
    std::vector<int32_t> positions = MirroredPositions(length, parts);
    if (ordered == nullptr) {
      mirrored_ = parts;
    } else {
      std::iota(positions.begin(), positions.end(), 0);
      notes->push_back(
          absl::StrCat("positions: ", parts,
                       " parts in order, so that the last device computes most of causal "
                       "attention: ",
                       Where(*ordered), " goes by the order of tokens"));
    }
    return ExpectRuns(graph_, positions, parts);
  }

  // An input of numbers for each token, which lies as the tokens do; but of positions each device
  // may have all.
  TensorId AddInput(std::string source) {
    Op op{.name = FreeName(graph_, source), .kind = "input"};
    op.scope = op.name;
    op.attrs["source"] = std::move(source);
    if (mirrored_ > 1) op.attrs["mirrored"] = int64_t{mirrored_};
    op.outputs = {AddTensor(&graph_, op.name)};
    Tensor& added = graph_.tensors[op.outputs[0]];
    const Tensor& tokens = graph_.tensors[tokens_];
    added.shape = tokens.shape;
    added.dtype = tokens.dtype;
    for (const auto& [axis, sbp] : tokens.constraint) {
      if (sbp != S(1)) added.constraint.emplace(axis, sbp);
    }
    ops_.push_back(std::move(op));
    return ops_.back().outputs[0];
  }

  absl::Status Rewrite(Op op) {
    const Positions positions = FindOpDef(op)->positions;
    if (op.kind == "input") {
      RewriteInput(&op);
    } else if (op.kind == "attention" || op.kind == "causal_attention") {
      const size_t before = op.kind == "attention" ? (AttrBool(op, "sinks") ? 4 : 3) : 1;
      RETURN_IF_ERROR(ExpectInputs(op, before));
      op.inputs.insert(op.inputs.end(), {positions_, positions_});
      if (documents_asked_) op.inputs.insert(op.inputs.end(), {documents_, documents_});
    } else if (positions == Positions::kInput) {
      RETURN_IF_ERROR(ExpectInputs(op, 1));
      op.inputs.push_back(positions_);
    } else if (positions == Positions::kTable) {
      op = LookUp(std::move(op));
    } else if (positions == Positions::kWhole) {
      return InputError(Where(op),
                        documents_asked_
                            ? "attends to all tokens before, whatever document they are of"
                            : "attends to all tokens before, and axes split their positions",
                        "use a graph with attention or causal_attention (`oneflow model gpt "
                        "--attention=fused`): its variables are the same");
    }
    ops_.push_back(std::move(op));
    return absl::OkStatus();
  }

  void RewriteInput(Op* op) {
    const std::string source = AttrString(*op, "source", "feed");
    if (documents_asked_ && source == "labels") {
      op->attrs["source"] = std::string("document_labels");
    } else if (documents_asked_ && source == "next_labels") {
      op->attrs["source"] = std::string("next_document_labels");
    }
    if (mirrored_ > 1) op->attrs["mirrored"] = int64_t{mirrored_};
  }

  absl::Status ExpectInputs(const Op& op, size_t inputs) const {
    if (op.inputs.size() == inputs) return absl::OkStatus();
    const std::string asked = documents_asked_ ? "--documents" : "an axis that splits positions";
    return InputError(Where(op), "has positions of its own, which " + asked + " would replace",
                      "leave " + asked + " out, or these inputs");
  }

  // The rows of the table, and the sum that takes the place of `op`, which is returned.
  Op LookUp(Op op) {
    Op rows = op;
    rows.name = FreeName(graph_, op.name + ".rows");
    rows.kind = "embedding";
    rows.inputs = {op.inputs[1], positions_};
    rows.outputs = {AddTensor(&graph_, rows.name)};
    op.kind = "add";
    op.inputs[1] = rows.outputs[0];
    ops_.push_back(std::move(rows));
    return op;
  }

  Graph& graph_;
  const bool documents_asked_;
  const TensorId tokens_;
  int mirrored_ = 1;
  TensorId positions_ = -1, documents_ = -1;
  std::vector<Op> ops_;  // of the new graph
};

}  // namespace

int PositionParts(const Graph& graph) {
  const auto tokens = std::find_if(graph.ops.begin(), graph.ops.end(), IsTokens);
  if (tokens == graph.ops.end()) return 1;
  int parts = 1;
  for (int axis = 0; axis < static_cast<int>(graph.mesh.axes.size()); ++axis) {
    if (SplitsPositions(graph, tokens->outputs[0], axis)) parts *= graph.mesh.axes[axis].size;
  }
  return parts;
}

absl::Status GivePositions(Graph* graph, bool documents, std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const Op* tokens, FindTokens(*graph));
  return Giver(graph, documents, *tokens).Run(notes);
}

void JoinPositions(Graph* graph) {
  const auto tokens = std::find_if(graph->ops.begin(), graph->ops.end(), IsTokens);
  if (tokens == graph->ops.end()) return;
  const std::map<std::string, Sbp> constraint = graph->tensors[tokens->outputs[0]].constraint;
  for (const auto& [axis, asked] : constraint) {
    if (asked != S(1)) continue;
    for (Tensor& tensor : graph->tensors) {
      const auto found = tensor.constraint.find(axis);
      const bool variable = IsVariable(graph->ops[tensor.producer]);
      if (variable || found == tensor.constraint.end() || found->second != asked) continue;
      found->second = B();
    }
  }
}

}  // namespace oneflow
