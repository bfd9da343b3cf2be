// What of each variable rests in the host's memory, and what the host's processors compute, as the
// variable's attribute `host` says: words of "states", "weights" and "update", joined by commas
// (oneflow_core/model/offload.h).
//
//   states    its moments; itself, too, where micro-batches read only what is prepared from it
//             (a cast): it is a state then
//   weights   what micro-batches read: itself, or what is prepared from it; copied for each use
//   update    its moments and itself; the host updates them, and prepares what devices read, who
//             copy that once a step, or with `weights` for each use
//
// With one micro-batch a step, a gradient that the host updates by leaves the device as soon as it
// is written; so the host computes its norm, too. With more, gradients add up on the device, which
// computes the norm sooner.
//
// The pass marks ops (Op::in_host_memory, copied_once, on_host); copies are made where actors are
// (compiler/lower/move_to_host.h). No value changes.
#pragma once

#include <cstdint>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires inserted boxing. `micro_batches`: of a step.
void RestOnHost(int64_t micro_batches, Graph* graph);

}  // namespace oneflow
