// Sets dimensions of size 0 named "batch" to the sequences of one micro-batch. Before shapes are
// inferred.
#include "compiler/passes/passes.h"

#include <string>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::Status BindBatch(Graph* graph, int64_t micro_batch_size) {
  if (micro_batch_size < 1) {
    return InputError("micro-batch size", "is " + std::to_string(micro_batch_size),
                      "each micro-batch needs at least one sequence");
  }
  for (Tensor& tensor : graph->tensors) {
    for (int d = 0; d < tensor.shape.rank(); ++d) {
      if (tensor.shape.dims[d] != 0) continue;
      const std::string name = tensor.shape.names.empty() ? "" : tensor.shape.names[d];
      if (name != "batch") {
        return InputError(
            tensor.name,
            "dimension " + std::to_string(d) + " has size 0 and the name \"" + name + "\"",
            "give it a size, or the name \"batch\"");
      }
      tensor.shape.dims[d] = micro_batch_size;
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
