// infer_sbp on a graph all of whose ops compute on one mesh. Part of infer_sbp.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/passes/infer_sbp.h"
#include "compiler/passes/sbp_labels.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// What is chosen at once is solved with tables of so many cells; larger ones take longer than they
// are worth.
inline constexpr int64_t kJointCells = int64_t{1} << 18;

// Whether no op has more ways to choose among than kMostWays.
bool FewEnoughWays(const SbpLabels& labels);

// All of more than one device but that of stages.
std::vector<int> AxesToChoose(const Mesh& mesh);

absl::StatusOr<SbpChoice> InferOnMesh(Graph* graph, const SbpOptions& options);

}  // namespace oneflow
