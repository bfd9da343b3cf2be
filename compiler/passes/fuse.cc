#include "compiler/passes/fuse.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/passes/rewrite.h"

namespace oneflow {
namespace {

// Whether two ops fire together: once each for the same micro-batch, on the same devices.
bool Together(const Op& a, const Op& b) {
  return a.stage == b.stage && a.chunk == b.chunk && a.phase == b.phase && a.again == b.again;
}

bool IsOutput(const Graph& graph, TensorId t) {
  return t == graph.loss ||
         std::find(graph.outputs.begin(), graph.outputs.end(), t) != graph.outputs.end();
}

// The gelu of the linear `id`; -1 if there is none to fuse it with.
OpId GeluOf(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  const Op& linear = graph.ops[id];
  if (linear.kind != "linear") return -1;
  for (const Use& use : uses[linear.outputs[0]]) {
    const Op& reader = graph.ops[use.op];
    if (reader.kind == "gelu" && Together(linear, reader)) return use.op;
  }
  return -1;
}

// The gelu_grad that alone reads what the linear_grad_input `id` gives; -1 if there is none.
OpId GeluGradOf(const Graph& graph, const std::vector<std::vector<Use>>& uses, OpId id) {
  const Op& product = graph.ops[id];
  if (product.kind != "linear_grad_input") return -1;
  const TensorId dz = product.outputs[0];
  if (uses[dz].size() != 1 || uses[dz][0].input != 0 || IsOutput(graph, dz)) return -1;
  const Op& reader = graph.ops[uses[dz][0].op];
  return reader.kind == "gelu_grad" && Together(product, reader) ? uses[dz][0].op : -1;
}

Op Fused(Op product, const Op& second, const char* kind) {
  product.kind = kind;
  product.why = product.name + " and " + second.name + " are one op";
  return product;
}

// Forgets the tensors listed in `gone`, in order; returns the new ids, -1 for those.
std::vector<TensorId> DropTensors(Graph* graph, const std::vector<TensorId>& gone) {
  std::vector<TensorId> renamed(graph->tensors.size(), -1);
  std::vector<Tensor> kept;
  for (TensorId t = 0; t < static_cast<TensorId>(renamed.size()); ++t) {
    if (std::binary_search(gone.begin(), gone.end(), t)) continue;
    renamed[t] = static_cast<TensorId>(kept.size());
    kept.push_back(std::move(graph->tensors[t]));
  }
  graph->tensors = std::move(kept);
  for (Op& op : graph->ops) {
    for (TensorId& t : op.inputs) t = renamed[t];
    for (TensorId& t : op.outputs) t = renamed[t];
  }
  for (TensorId& t : graph->outputs) t = renamed[t];
  if (graph->loss >= 0) graph->loss = renamed[graph->loss];
  return renamed;
}

}  // namespace

std::vector<TensorId> Fuse(Graph* graph) {
  const std::vector<std::vector<Use>> uses = UsesOf(*graph);
  std::vector<OpId> product_of(graph->ops.size(), -1);  // by gelu_grad
  std::vector<bool> gone(graph->ops.size(), false);
  std::vector<TensorId> unmade;
  std::vector<Op> ops;
  for (OpId id = 0; id < static_cast<OpId>(graph->ops.size()); ++id) {
    if (gone[id]) continue;
    Op op = graph->ops[id];
    if (const OpId gelu = GeluOf(*graph, uses, id); gelu >= 0) {
      op = Fused(std::move(op), graph->ops[gelu], "linear_gelu");
      op.outputs.push_back(graph->ops[gelu].outputs[0]);
      gone[gelu] = true;
    } else if (const OpId grad = GeluGradOf(*graph, uses, id); grad >= 0) {
      product_of[grad] = id;  // its x may be made only after this
      unmade.push_back(op.outputs[0]);
      continue;
    } else if (product_of[id] >= 0) {
      op = Fused(graph->ops[product_of[id]], op, "linear_gelu_grad_input");
      op.name = graph->ops[id].name;
      op.inputs.push_back(graph->ops[id].inputs[1]);
      op.outputs = graph->ops[id].outputs;
    }
    ops.push_back(std::move(op));
  }
  graph->ops = std::move(ops);
  std::sort(unmade.begin(), unmade.end());
  const std::vector<TensorId> renamed = DropTensors(graph, unmade);
  SetOps(graph, std::vector<Op>(graph->ops));
  return renamed;
}

}  // namespace oneflow
