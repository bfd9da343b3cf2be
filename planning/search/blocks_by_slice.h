// The slices that compile puts the blocks of a model in.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "oneflow_core/graph/graph_proto.h"

namespace oneflow {

// The number of blocks of each slice along the pipe, stages times chunks. Errors: those of
// AnnotateModel.
absl::StatusOr<std::vector<int>> BlocksBySlice(const GraphSource& source,
                                               const PlanRequest& options);

}  // namespace oneflow
