// The variables of a model's graph, and a plan that has nothing else: what a checkpoint without a
// run is made of.
#pragma once

#include <vector>

#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "training/hugging_face/model_folder.h"

namespace oneflow {

// In the order of the graph.
std::vector<WantedVariable> ListVariables(const proto::Graph& graph);

// A plan of one device, with the graph and its variables, for CheckpointWriter and CheckVariables.
// It has no programs and cannot run.
proto::Plan MakeModelPlan(const proto::Graph& graph);

}  // namespace oneflow
