// Marks the parts of each variable that rest in the host's memory, and the ops that the host's
// processors compute. The variable's attribute `host` states them: words of "states", "weights" and
// "update", joined by commas (oneflow_core/model/offload.h).
//
//   states    its moments; also itself, if micro-batches read only a cast of it, because it is a
//             state then
//   weights   the tensor that micro-batches read, itself or its cast; copied for each use
//   update    its moments and itself; the host updates them and prepares what devices read, who
//             copy that once a step, or with `weights` for each use
//
// With one micro-batch a step, a gradient that the host reads for its update leaves the device as
// soon as it is written, so the host computes its norm, too. With more, gradients add up on the
// device, which computes the norm sooner.
//
// The pass marks ops (Op::in_host_memory, copied_once, on_host). Lowering adds the copies
// (compiler/lower/move_to_host.h). No value changes.
#pragma once

#include <cstdint>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires inserted boxing. `micro_batches`: of a step.
void RestOnHost(int64_t micro_batches, Graph* graph);

}  // namespace oneflow
