// The data that rests in the host's memory instead of the device's, between its uses.
//
//   activations   forward tensors that the backward reads: out after they are written, back before
//                 their first reader of the backward
//   states        the moments of the optimizer, and the f32 master if products read a cast of it
//                 that is made once a step; they stream through the device in the update
//   weights       the weights that the model reads: copied in for each use, ahead of it
//
// With update_on host the host's processors update: gradients are copied out, and states stay in
// the host's memory. The weights that devices read are copied in once a step.
//
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
