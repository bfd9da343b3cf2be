// What leading tensors from one mesh of a graph to another takes, as terms of a ChoiceNetwork over
// the units on both: the prices of the very ways that insert_boxing takes (boxing_path.h). Part of
// infer_sbp.
#pragma once

#include <optional>
#include <vector>

#include "compiler/passes/mesh_part.h"
#include "compiler/passes/sbp_network.h"
#include "compiler/passes/sbp_tables.h"
#include "oneflow_core/graph/graph.h"
#include "oneflow_core/tensor/sub_mesh.h"

namespace oneflow {

// What is chosen on one of the meshes of a graph.
struct ProblemOnMesh {
  const std::optional<SubMesh>& sub_mesh;
  const MeshPart& part;
  std::optional<SbpProblem> problem;  // of part.graph; nothing: it has no axis to choose on
};

// `meshes`: all on which ops of `graph` compute. A tensor that is read on another mesh crosses once
// for each way in which it is needed there, by sharing class; what the run reads comes to the whole
// mesh. Stages are not looked at (law 6).
void AddCrossings(const Graph& graph, const SbpOptions& options,
                  const std::vector<ProblemOnMesh>& meshes, SbpTables* tables);

}  // namespace oneflow
