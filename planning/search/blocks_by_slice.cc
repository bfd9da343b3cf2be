#include "planning/search/blocks_by_slice.h"

#include <algorithm>
#include <set>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/annotate_model.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {

absl::StatusOr<std::vector<int>> BlocksBySlice(const GraphSource& source,
                                               const PlanRequest& options) {
  ASSIGN_OR_RETURN(Graph graph, GraphFromSource(source));
  ASSIGN_OR_RETURN(graph.mesh, MeshFromProto(options.recipe.mesh()));
  const int chunks = std::max(1, options.recipe.chunks());
  proto::Recipe recipe;
  *recipe.mutable_stage_layers() = options.recipe.stage_layers();
  RETURN_IF_ERROR(AnnotateModel(&graph, graph.mesh, recipe, chunks));
  std::vector<int> blocks(graph.mesh.stages() * chunks, 0);
  std::set<int> counted;
  for (const Op& op : graph.ops) {
    if (op.block >= 0 && counted.insert(op.block).second) ++blocks[op.stage];
  }
  return blocks;
}

}  // namespace oneflow
