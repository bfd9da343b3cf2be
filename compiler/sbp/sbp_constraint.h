// Reads the SBP constraints of a graph. Part of infer_sbp.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The user's constraint of a tensor on an axis; nullopt if free. It has the axis's name or the name
// of the axis that it is a factor of ("data" for data.0).
std::optional<Sbp> ConstraintOn(const Tensor& tensor, const Mesh& mesh, int axis);

// Checks every constraint, and every attribute of a variable's sharding. Each must name an axis of
// the mesh, or one that other meshes have (data, tensor, ...), and a constraint a dimension that
// its tensor has.
absl::Status CheckConstraints(const Graph& graph);

}  // namespace oneflow
