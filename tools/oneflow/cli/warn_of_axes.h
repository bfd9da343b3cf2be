// Axes of a mesh that nothing is laid out over.
#pragma once

#include "oneflow_core/tensor/mesh.h"
#include "proto/graph.pb.h"

namespace oneflow {

// A line on stderr for each axis that neither models nor the graph name. A mistyped axis is a good
// mesh: of an axis that no layout is written for, all is inferred. It is printed on stderr, because
// training prints no plan.
void WarnOfAxes(const proto::Graph& graph, const Mesh& mesh);

}  // namespace oneflow
