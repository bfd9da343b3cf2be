#include "planning/search/blocks_by_slice.h"

#include <algorithm>
#include <set>

#include "oneflow_core/base/status.h"
#include "oneflow_core/model/annotate_model.h"

namespace oneflow {

absl::StatusOr<std::vector<int>> BlocksBySlice(const GraphSource& source,
                                               const CompileOptions& options) {
  ASSIGN_OR_RETURN(Graph graph, GraphFromSource(source));
  graph.mesh = options.mesh;
  const int chunks = std::max(1, options.train.chunks());
  RETURN_IF_ERROR(AnnotateModel(&graph, options.mesh,
                                {.chunks = chunks, .stage_layers = options.stage_layers}));
  std::vector<int> blocks(options.mesh.stages() * chunks, 0);
  std::set<int> counted;
  for (const Op& op : graph.ops) {
    if (op.block >= 0 && counted.insert(op.block).second) ++blocks[op.stage];
  }
  return blocks;
}

}  // namespace oneflow
