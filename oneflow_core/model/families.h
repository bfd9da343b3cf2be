// The table of families. A new family is a file with a row (family.h), and a line in families.cc.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/model/family.h"

namespace oneflow {

const std::vector<Family>& Families();

// Returns the family that the graph states. If it states none, as in files written before the field
// existed, returns the one whose variables it has; null if there is no such family. Error: the
// graph states a family that is not in the table.
absl::StatusOr<const Family*> FindFamily(const Graph& graph);

}  // namespace oneflow
