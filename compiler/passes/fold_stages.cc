#include "compiler/passes/fold_stages.h"

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
