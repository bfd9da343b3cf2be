// Adapters of low rank (LoRA, Hu et al. 2021) in the graph of a model, as AddAdapters writes them.
//
// Beside a product y = x W with a variable "h.3.mlp.gate.weight" stand two variables:
//
//   h.3.mlp.gate.lora_a [in dims..., rank]     h.3.mlp.gate.lora_b [rank, out dims...]
//
//   h.3.mlp.gate.lora_drop   dropout      of what the product reads, with a rate > 0
//   h.3.mlp.gate.lora_down   linear       x, lora_a -> [b, t, rank]
//   h.3.mlp.gate.lora_scale  multiply     by alpha / rank, unless that is 1
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

#include "oneflow_core/graph/graph.h"
#include "oneflow_core/model/family.h"
#include "proto/graph.pb.h"

namespace oneflow {

// One adapter: W + factor * A B is what the model computes with.
struct Adapter {
  std::string at;      // "h.3.attn.qkv.q": its names begin so
  std::string weight;  // the variable that it adapts: "h.3.attn.qkv.weight"
  int part = -1;     // of the weight's parts in files (VariableParts::parts); -1: it is one tensor
  std::string a, b;  // its variables
  double factor = 1;
};

// alpha / rank, or with rslora alpha / sqrt(rank); an absent alpha is 2 * rank.
double AdapterFactor(const proto::Lora& lora);

// The adapters of a graph, in the order of its ops.
std::vector<Adapter> ListAdapters(const proto::Graph& graph);

// The names of an adapter's variables and ops, behind Adapter::at.
inline constexpr std::string_view kAdapterA = ".lora_a", kAdapterB = ".lora_b",
                                  kAdapterDrop = ".lora_drop", kAdapterDown = ".lora_down",
                                  kAdapterScale = ".lora_scale", kAdapterUp = ".lora_up",
                                  kAdapterSum = ".lora_sum";
// Of the tensors that a weight packs, behind the weight's own: "h.3.attn.qkv" + ".q".
inline constexpr std::string_view kAdapterParts[] = {".q", ".k", ".v"};

// True if a variable has the name of an adapter's.
bool IsAdapterName(std::string_view variable);

// The layout on axes `tensor` of an adapter's variable: what the weight that it adapts has on the
// dimensions that they share. Absent: `variable` is no adapter's, or the family states none.
std::optional<TensorSplit> FindAdapterSplit(const Family& family, const Graph& graph,
                                            const Op& variable);

// The graph without adapters, base and frozen variables: that of the model.
proto::Graph RemoveAdapters(proto::Graph graph);

}  // namespace oneflow
