// Writes into a graph the parts of variables that rest in the host's memory: the attribute `host`
// of each variable that has states, "states", "weights" and "update" joined by commas. The user's
// attributes win.
#pragma once

#include "oneflow_core/graph/graph.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// The recipe's `offload` and `update_on`.
void AnnotateOffload(const proto::Recipe& recipe, Graph* graph);

// What rests in the host's memory of any variable, by that attribute.
struct VariablesOnHost {
  bool states = false, weights = false, update = false;
  bool any() const { return states || weights || update; }
};
VariablesOnHost FindOnHost(const Graph& graph);

// True if anything rests in the host's memory: variables, or activations by the recipe.
bool RestsOnHost(const proto::Recipe& recipe, const Graph& graph);

}  // namespace oneflow
