// Sets dimensions of size 0 named "batch" to the sequences of one micro-batch. Before shapes are
// inferred.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires micro_batch_size >= 1. A dimension of size 0 with another name is an input error.
absl::Status BindBatch(Graph* graph, int64_t micro_batch_size);

}  // namespace oneflow
