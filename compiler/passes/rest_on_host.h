// What of each variable rests in the host's memory, and what the host's processors compute, as the
// variable's attribute `host` says: words of "states", "weights" and "update", joined by commas
// (oneflow_core/model/offload.h).
//
//   states    its moments; itself, too, where micro-batches read only what is prepared from it
//             (a cast): it is a state then
//   weights   what micro-batches read: itself, or what is prepared from it; copied for each use
//   update    its moments and itself; the host updates them, with the norm of what it updates by,
//             and prepares what devices read, who copy that once a step, or with `weights` for each
//             use
//
// The pass marks ops (Op::in_host_memory, copied_once, on_host); copies are made where actors are
// (compiler/lower/move_to_host.h). No value changes.
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Requires inserted boxing.
void RestOnHost(Graph* graph);

}  // namespace oneflow
