// A plan that has nothing but a model's graph and its variables: what a checkpoint without a run is
// made of.
#pragma once

#include "proto/graph.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A plan of one device, with the graph and its variables, for CheckpointWriter and CheckVariables.
// It has no programs and cannot run.
proto::Plan MakeModelPlan(const proto::Graph& graph);

}  // namespace oneflow
