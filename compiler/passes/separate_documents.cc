#include "compiler/passes/separate_documents.h"

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "compiler/passes/infer_shapes.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// The input from which positions and documents are read: the only one of tokens.
absl::StatusOr<const Op*> FindTokens(const Graph& graph) {
  const Op* tokens = nullptr;
  for (const Op& op : graph.ops) {
    if (op.kind != "input" || AttrString(op, "source") != "tokens") continue;
    if (tokens != nullptr) {
      return InputError(Where(op),
                        "is the second input of tokens, so it is not known which has "
                        "the documents that --documents keeps apart",
                        "leave --documents out, or one of the inputs");
    }
    tokens = &op;
  }
  if (tokens != nullptr) return tokens;
  return InputError("graph " + graph.name, "reads no tokens, so it has no documents",
                    "leave --documents out");
}

class Separator {
 public:
  Separator(Graph* graph, const Op& tokens) : graph_(*graph), tokens_(tokens.outputs[0]) {}

  absl::Status Run() {
    positions_ = AddInput("positions");
    documents_ = AddInput("documents");
    for (const Op& op : graph_.ops) RETURN_IF_ERROR(Rewrite(op));  // copies: names stay taken
    SetOps(&graph_, std::move(ops_));
    return CheckAndInferShapes(&graph_);
  }

 private:
  // An input of numbers for each token, which lies as the tokens do.
  TensorId AddInput(std::string source) {
    Op op{.name = FreeName(graph_, source), .kind = "input"};
    op.scope = op.name;
    op.attrs["source"] = std::move(source);
    op.outputs = {AddTensor(&graph_, op.name)};
    Tensor& added = graph_.tensors[op.outputs[0]];
    const Tensor& tokens = graph_.tensors[tokens_];
    added.shape = tokens.shape;
    added.dtype = tokens.dtype;
    added.constraint = tokens.constraint;
    ops_.push_back(std::move(op));
    return ops_.back().outputs[0];
  }

  absl::Status Rewrite(Op op) {
    const Positions positions = FindOpDef(op)->positions;
    if (op.kind == "input" && AttrString(op, "source") == "labels") {
      op.attrs["source"] = std::string("document_labels");
    } else if (op.kind == "softmax_cross_entropy") {
      op.attrs["ignore_negative"] = true;
    } else if (op.kind == "attention" || op.kind == "causal_attention") {
      RETURN_IF_ERROR(ExpectInputs(op, op.kind == "attention" ? 3 : 1));
      op.inputs.insert(op.inputs.end(), {positions_, positions_, documents_, documents_});
    } else if (positions == Positions::kInput) {
      RETURN_IF_ERROR(ExpectInputs(op, 1));
      op.inputs.push_back(positions_);
    } else if (positions == Positions::kTable) {
      op = LookUp(std::move(op));
    } else if (positions == Positions::kWhole) {
      return InputError(Where(op), "attends to all tokens before, whatever document they are of",
                        "use a graph with attention or causal_attention (`oneflow model gpt "
                        "--attention=fused`): its variables are the same");
    }
    ops_.push_back(std::move(op));
    return absl::OkStatus();
  }

  static absl::Status ExpectInputs(const Op& op, size_t inputs) {
    if (op.inputs.size() == inputs) return absl::OkStatus();
    return InputError(Where(op), "has positions of its own, which --documents would replace",
                      "leave --documents out, or these inputs");
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
  const TensorId tokens_;
  TensorId positions_ = -1, documents_ = -1;
  std::vector<Op> ops_;  // of the new graph
};

}  // namespace

absl::Status SeparateDocuments(Graph* graph) {
  ASSIGN_OR_RETURN(const Op* tokens, FindTokens(*graph));
  return Separator(graph, *tokens).Run();
}

}  // namespace oneflow
