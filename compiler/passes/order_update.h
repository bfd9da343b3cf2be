// Orders the ops of the update as the backward makes the gradients that they read. Gradients are
// finished from the last layer to the first, while the update was written from the first to the
// last. So a gradient's exchange comes when it can begin, and its readers come next. Exchanges that
// wait for kernels of the update, such as those of sums of squares, stand together. No kernel
// between two of them waits for the first, so they can become one (lower/buckets.h).
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Ops of other phases keep their positions. Requires inserted boxing, and that no op of the update
// but a variable comes before an op that fires with every micro-batch.
void OrderUpdate(Graph* graph);

}  // namespace oneflow
