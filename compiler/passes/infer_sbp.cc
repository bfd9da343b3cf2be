#include "compiler/passes/infer_sbp.h"

#include "compiler/passes/infer_across_meshes.h"
#include "compiler/passes/infer_on_mesh.h"
#include "compiler/passes/mesh_part.h"

namespace oneflow {

absl::StatusOr<SbpChoice> InferSbp(Graph* graph, const SbpOptions& options) {
  const bool one_mesh = MeshesOf(*graph).size() == 1;
  return one_mesh ? InferOnMesh(graph, options) : InferAcrossMeshes(graph, options);
}

}  // namespace oneflow
