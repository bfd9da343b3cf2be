// infer_sbp on a graph some of whose ops compute on sub-meshes: first on each mesh as if there were
// no other, then on all together, with what crosses between them (sbp_crossings.h). Part of
// infer_sbp.
#pragma once

#include <deque>
#include <optional>

#include "absl/status/statusor.h"
#include "compiler/passes/choice_network.h"
#include "compiler/passes/infer_sbp.h"
#include "compiler/passes/mesh_part.h"
#include "compiler/passes/sbp_labels.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/sub_mesh.h"

namespace oneflow {

// One of the meshes of a graph.
struct OnMesh {
  std::optional<SubMesh> sub_mesh;
  MeshPart part;
  SbpOptions options;  // with the part's mirrors
  SbpChoice choice;    // as part.graph lies
  Graph unsettled;     // part.graph with all whole, as `whole` says
  SbpChoice whole;
  std::optional<SbpLabels> labels;  // of `unsettled`; nothing: no axis to choose on
};

// Each with the choice that is the best there, whatever crosses. A deque, for labels point into it.
absl::StatusOr<std::deque<OnMesh>> ChooseOnEach(const Graph& graph, const SbpOptions& options);

// All meshes together: the variables of each in order, then helpers.
ChoiceNetwork NetworkAcross(const Graph& graph, const SbpOptions& options,
                            const std::deque<OnMesh>& meshes);

// As InferSbp.
absl::StatusOr<SbpChoice> InferAcrossMeshes(Graph* graph, const SbpOptions& options);

}  // namespace oneflow
