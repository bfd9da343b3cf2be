// Small functions that change a graph and keep its invariants. Passes share them; none is a pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The kind that adds up its inputs in their order; of one input it is a copy.
inline constexpr char kAddUp[] = "add_n";

// The graph's ops become `ops`, and every tensor learns its producer anew. Tensors keep their ids.
// Requires: every tensor is the output of one of `ops`.
void SetOps(Graph* graph, std::vector<Op> ops);

// The same, and forgets the tensors listed in `gone`, which none of `ops` makes or reads. Returns
// the new ids of all tensors, -1 for those.
std::vector<TensorId> ReplaceOps(Graph* graph, std::vector<Op> ops, std::vector<TensorId> gone);

// Appends a tensor without a producer yet; returns its id.
TensorId AddTensor(Graph* graph, std::string name);

// Sets shapes and dtypes of the outputs of `op`, which need not stand in the graph yet.
absl::Status InferOutputs(Graph* graph, const Op& op);

// `wish`, or `wish` with the first of ".2", ".3", ... that no op of the graph bears.
std::string FreeName(const Graph& graph, std::string_view wish);

bool IsVariable(const Op& op);
// The variable a replica stands for: "wte" for the op "wte@3"; the op's own name without a replica.
std::string VariableName(const Op& op);

// True if the op is a variable, or prepares something from one: a cast.
bool DerivesFromVariable(const Op& op);
// True if the op casts a variable in a micro-batch, for one use (the pass cast_uses).
bool CastsForUse(const Graph& graph, const Op& op);
// The axes of the mesh that an attribute of a variable names, itself or what it is a factor of:
// "data" names data.0, too.
std::vector<int> FindAxes(const Graph& graph, const Op& variable, std::string_view attr);
// True if what is split on a mesh axis of what `producer` makes is gathered once a step for all
// readers of the micro-batches, as its variable says of the axis, or of the one it is a factor of.
bool GathersOnce(const Graph& graph, const Op& producer, int axis);

// True if the variable of which `producer` prepares something says that a forward and its backward
// share what is gathered for a micro-batch: `gather_shared`.
bool SharesGathers(const Graph& graph, const Op& producer);

int64_t TensorBytes(const Tensor& tensor);

}  // namespace oneflow
