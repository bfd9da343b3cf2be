// Puts the ops of the update into the order in which the backward makes what they read: gradients
// are finished from the last layer to the first, while the update was written from the first to the
// last. So a gradient's exchange comes when it can begin, and what follows it comes next. Exchanges
// that wait for kernels of the update, as those of sums of squares do, stand together: no kernel
// between two of them waits for the first, so that they can become one (lower/buckets.h).
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Ops of other phases stay where they are. Requires inserted boxing, and of the update no op but
// variables before one that fires with every micro-batch.
void OrderUpdate(Graph* graph);

}  // namespace oneflow
