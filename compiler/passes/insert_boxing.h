// Inserts boxing: the ops that give every tensor the SBP that its readers need. On the devices of a
// stage it is the cheapest path of primitives (boxing_path.h), one op each, with the attribute
// `axis` (all_to_all may name several, "data,tensor") and on one axis `dim_from` and `dim_to`; and
// `transfer` from stage to stage. docs/boxing.md explains it.
//
// Readers that need the same of a tensor in the same chunk of a stage share the ops; readers of the
// update phase have their own, which run after accumulation, once a step. Forward and backward
// readers share, except of a variable: what is gathered from it does not live from forward to
// backward (but for one with the attribute `gather_shared`, and on axes over which it is gathered
// once a step, GathersOnce: there all readers share
// what is gathered before the first micro-batch); and with `regather` except of what is
// gathered from the forward: its parts are kept.
//
// Between stages with a slow link a tensor that is replicated on an axis is sent in parts, if
// slicing it before the link and gathering it behind takes less time.
//
// A partial value is reduced on the stage that made it, before it is sent to a reader that needs it
// reduced; a reader that sums it further gets the parts as they are. So each sum has the same terms
// in the same order wherever the model is split into stages.
//
// Partial values that a run reports are resolved: Graph::loss and Graph::outputs become the
// resolved tensors (the loss in the update phase).
//
// Guarantees: each op's inputs have exactly the SBP of its chosen signature and are on its stage
// (verify_graph.h proves it). Op::why of each op added says who needed it.
//
// Next: proto/plan.proto, the plan that the graph becomes.
#pragma once

#include "absl/status/status.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// Requires the `choice` that InferSbp made for this very graph. `cluster` prices the boxing: within
// a stage on the stage alone, so that no number of stages changes a path; between stages on the
// whole mesh.
absl::Status InsertBoxing(Graph* graph, const SbpChoice& choice, const proto::Cluster& cluster = {},
                          bool regather = false);

}  // namespace oneflow
