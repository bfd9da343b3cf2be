// Folds a pipe of more positions than stages. With v chunks a stage, `stage` of the user's graph
// counts positions 0 .. P v − 1 along the pipe; position i is chunk i / P of stage i mod P.
//
// It moves nothing else. A tensor from the chunk before on the same stage needs no transfer, and
// one from the last stage to the first has a transfer like any other.
#pragma once

#include "absl/status/status.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires 1 <= chunks. An op beyond the last position is an input error; with one
// chunk nothing happens.
absl::Status FoldStages(Graph* graph, int chunks);

}  // namespace oneflow
