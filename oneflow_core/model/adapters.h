// Adapters of low rank (LoRA, Hu et al. 2021) in the graph of a model, as AddAdapters writes them.
//
// Beside a product y = x W with a variable "h.3.mlp.gate.weight" stand two variables:
//
//   h.3.mlp.gate.lora_a [in dims..., rank]     h.3.mlp.gate.lora_b [rank, out dims...]
//
//   h.3.mlp.gate.lora_drop   dropout      x -> x, with a rate > 0; h.3.mlp.gate.lora_a is its mask's owner
//   h.3.mlp.gate.lora_down   linear       x, lora_a -> [b, t, rank]
//   h.3.mlp.gate.lora_scale  scale        times alpha / rank, unless that is 1
//   h.3.mlp.gate.lora_up     linear       lora_b -> the shape of y
//   h.3.mlp.gate.lora_sum    add_delta    y plus that; what read y reads this
//
// A weight that packs several tensors of the model's files (queries, keys, values) has a pair for
// each, h.3.attn.qkv.q.lora_a, ..., added to the outputs of the split_qkv behind the product.
//
//   for (const Adapter& a : ListAdapters(graph)) Merge(a.weight, a.part, a.a, a.b, a.factor);
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oneflow_core/model/family.h"
#include "oneflow_core/tensor/shape.h"
#include "proto/graph.pb.h"

namespace oneflow {

// One adapter: W + factor * A B is what the model computes with.
struct Adapter {
  std::string at;      // "h.3.attn.qkv.q": its names begin so
  std::string weight;  // the variable that it adapts: "h.3.attn.qkv.weight"
  int part = -1;       // of the weight's parts in files (VariableParts::parts); -1: it is one tensor
  std::string a, b;    // its variables
  double factor = 1;
};

// alpha / rank, or with rslora alpha / sqrt(rank); an absent alpha is 2 * rank.
double AdapterFactor(const proto::Lora& lora);

// The adapters of a graph, in the order of its ops.
std::vector<Adapter> ListAdapters(const proto::Graph& graph);

// True if a variable has the name of an adapter's: it ends ".lora_a" or ".lora_b".
bool IsAdapterName(std::string_view variable);

// The layout on axes `tensor` of an adapter's variable of these sizes, of a family: what the weight
// has on dimensions that they share. `variable` is of block `block`. Absent: no adapter of a weight
// whose layout the family states.
std::optional<TensorSplit> FindAdapterSplit(const Family& family, std::string_view variable,
                                            int block, int rank);

// The graph without adapters, base and frozen variables: that of the model.
proto::Graph RemoveAdapters(proto::Graph graph);

}  // namespace oneflow
