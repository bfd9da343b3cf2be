// Folds a pipe of more positions than stages. With v chunks a stage, `stage` of the user's graph
// counts positions 0 .. P v − 1 along the pipe; position i is chunk i / P of stage i mod P.
//
// It moves nothing else. A tensor from the chunk before on the same stage needs no transfer, and
// one from the last stage to the first has a transfer like any other.
#include "compiler/passes/passes.h"

#include <string>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::Status FoldStages(Graph* graph, int chunks) {
  if (chunks == 1) return absl::OkStatus();
  const int stages = graph->mesh.stages();
  for (Op& op : graph->ops) {
    if (op.stage < 0 || op.stage >= stages * chunks) {
      return InputError(Where(op),
                        "is on stage " + std::to_string(op.stage) + " but " +
                            std::to_string(stages) + " stages of " + std::to_string(chunks) +
                            " chunks have positions 0 to " + std::to_string(stages * chunks - 1),
                        "use more chunks, or change `stage`");
    }
    op.chunk = op.stage / stages;
    op.stage %= stages;
  }
  return absl::OkStatus();
}

}  // namespace oneflow
