// Small functions that change a graph and keep its invariants. Passes share them; none is a pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The kind that adds up its inputs in their order; with one input it is a copy.
inline constexpr char kAddUp[] = "add_n";

// Replaces the graph's ops, and sets the producer of every tensor anew. Tensors keep their ids.
// Requires that every tensor is an output of one of `ops`.
void SetOps(Graph* graph, std::vector<Op> ops);

// Replaces the graph's ops and removes the tensors listed in `gone`, which no op makes or reads.
// Returns the new ids of all tensors, -1 for removed ones.
std::vector<TensorId> ReplaceOps(Graph* graph, std::vector<Op> ops, std::vector<TensorId> gone);

// Appends a tensor that has no producer yet; returns its id.
TensorId AddTensor(Graph* graph, std::string name);

// Sets shapes and dtypes of the outputs of `op`, which need not be in the graph yet.
absl::Status InferOutputs(Graph* graph, const Op& op);

// Returns `wish`, or `wish` with the first of ".2", ".3", ... that no op of the graph has.
std::string FreeName(const Graph& graph, std::string_view wish);

bool IsVariable(const Op& op);
// The name of the variable that a replica stands for: "wte" for the op "wte@3", and for any other
// op its own.
std::string VariableName(const Op& op);

// True if the op is a variable, or prepares something from one: a cast.
bool DerivesFromVariable(const Op& op);
// True if the op casts a variable in a micro-batch, for one use (the pass cast_uses).
bool CastsForUse(const Graph& graph, const Op& op);
// Mesh axes that an attribute of a variable names. "data" also names its factors data.0, data.1,
// ...
std::vector<int> FindAxes(const Graph& graph, const Op& variable, std::string_view attr);
// True if the output of `producer` is gathered along a mesh axis once a step, for all readers of
// the micro-batches. The variable that it comes from says so, by the name of the axis or of the one
// it is a factor of.
bool GathersOnce(const Graph& graph, const Op& producer, int axis);

// True if a forward and its backward share the gathers of a micro-batch: the variable from which
// `producer` prepares something has the attribute `gather_shared`.
bool SharesGathers(const Graph& graph, const Op& producer);

int64_t TensorBytes(const Tensor& tensor);

}  // namespace oneflow
