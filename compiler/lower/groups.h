// The groups of devices that fire exchanges together: those that the boxing ops of graphs need.
#pragma once

#include <vector>

#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/plan.pb.h"

namespace oneflow {

// Returns each group once: those along axes first, then pairs of stages, both in ascending order.
// Requires inferred SBP and inserted boxing.
std::vector<proto::Group> FindGroups(const std::vector<const Graph*>& graphs);

// Index of the group of a boxing op; -1: the op is local.
int FindGroup(const google::protobuf::RepeatedPtrField<proto::Group>& groups, const Graph& graph,
              const Op& op);

}  // namespace oneflow
