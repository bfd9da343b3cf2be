// Turns a forward graph over whole sequences into one over pieces of `positions` new positions, for
// programs that continue a text. Keys and values of earlier positions stay in caches.
//
//   tokens[b, T]                               tokens[b, positions]
//                                              a new input, position[1]: that of the first token
//   positional_embedding(x, table)             positional_embedding_at(x, table, position)
//   attention(q, k, v) -> out, lse             cached_attention(cache, q, k, v, position) -> cache,
//                                              out; sinks come behind the position
//
// Each attention gets a transient variable of its own, cache[b, 2, g, T, d], named after it:
// programs with other numbers of positions share it. A text is one document, so an attention's
// inputs of positions and documents are dropped. Graph inputs for them may be unread afterwards.
#include "compiler/passes/passes.h"

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/rewrite.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

class Cacher {
 public:
  Cacher(Graph* graph, int64_t positions)
      : graph_(*graph), positions_(positions), uses_(FindUses(*graph)) {}

  absl::Status Run() {
    if (graph_.FindOp(kPositionInput) != nullptr) {
      return InputError("op position", "has the name of an input that `generate` adds",
                        "rename it");
    }
    position_ = AddSource("input", kPositionInput, Shape{1}, DType::kI32, {{"source", "feed"}});
    for (Op& op : graph_.ops) RETURN_IF_ERROR(Rewrite(std::move(op)));
    SetOps(&graph_, std::move(ops_));
    return CheckAndInferShapes(&graph_);
  }

 private:
  using Attrs = std::vector<std::pair<std::string, std::string>>;

  TensorId AddSource(std::string kind, std::string name, Shape shape, DType dtype,
                     const Attrs& attrs) {
    const TensorId t = AddTensor(&graph_, name);
    graph_.tensors[t].shape = std::move(shape);
    graph_.tensors[t].dtype = dtype;
    Op op{.name = name, .kind = std::move(kind), .outputs = {t}, .scope = name};
    for (const auto& [key, value] : attrs) op.attrs[key] = value;
    ops_.push_back(std::move(op));
    return t;
  }

  absl::Status Rewrite(Op op) {
    if (op.kind == "input" && AttrString(op, "source") == "tokens") {
      graph_.tensors[op.outputs[0]].shape.dims[1] = positions_;
    }
    const Positions positions = FindOpDef(op)->positions;
    if (positions == Positions::kTable) {
      op.kind = "positional_embedding_at";
      op.inputs.push_back(position_);
    }
    if (positions == Positions::kInput && op.inputs.size() == 1) op.inputs.push_back(position_);
    if (op.kind == "attention") RETURN_IF_ERROR(Cache(&op));
    if (positions == Positions::kWhole) {
      return InputError(Where(op), "attends to whole sequences, which no cache continues",
                        "generate from a graph with attention or causal_attention (`oneflow model "
                        "gpt --attention=fused`): its variables are the same");
    }
    ops_.push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status Cache(Op* op) {
    const TensorId out = op->outputs[0], lse = op->outputs[1];
    if (!uses_[lse].empty()) {
      return InputError(Where(*op), "its second output is used, which no cache gives",
                        "generate from a graph that uses only the first");
    }
    const Tensor& keys = graph_.tensors[op->inputs[1]];
    const Dims& d = keys.shape.dims;  // [b, T, g, d]
    if (graph_.tensors[op->inputs[0]].shape.dims[1] != d[1]) {
      return InputError(Where(*op), "has queries at some of the positions of its keys",
                        "generate from a graph whose attention has as many queries as keys");
    }
    const std::string name = FreeName(graph_, op->name + ".cache");
    const DType dtype = keys.dtype;
    const TensorId cache =
        AddSource("variable", name, Shape{d[0], 2, d[2], d[1], d[3]}, dtype, {{"init", "zeros"}});
    ops_.back().attrs["transient"] = true;
    ops_.back().stage = op->stage;
    op->kind = "cached_attention";
    std::vector<TensorId> inputs = {cache, op->inputs[0], op->inputs[1], op->inputs[2], position_};
    if (AttrBool(*op, "sinks")) inputs.push_back(op->inputs[3]);
    op->inputs = std::move(inputs);
    op->outputs = {lse, out};  // the tensor of lse becomes the cache's new value
    graph_.tensors[lse].name = name + "'";
    graph_.tensors[lse].constraint.clear();
    return absl::OkStatus();
  }

  Graph& graph_;
  const int64_t positions_;
  const std::vector<std::vector<Use>> uses_;
  TensorId position_ = -1;
  std::vector<Op> ops_;  // of the new graph
};

}  // namespace

absl::Status CacheAttention(Graph* graph, int64_t positions) {
  return Cacher(graph, positions).Run();
}

}  // namespace oneflow
