// Inserts boxing: the ops that give every tensor the SBP that its readers need. On the devices of a
// stage they are the cheapest path of primitives (boxing_path.h), one op each. The attribute `axis`
// names its mesh axes (several for some all_to_all, "data,tensor"); on one axis `dim_from` and
// `dim_to` give its dimensions. From stage to stage there is a `transfer`. docs/boxing.md explains
// it.
//
// Readers that need the same layout of a tensor in the same chunk of a stage share the ops. Readers
// of the update phase have their own, which run after accumulation, once a step. Forward and
// backward readers share, with two exceptions. A gathered variable does not live from forward to
// backward, unless it has the attribute `gather_shared`. But on axes over which it is gathered once
// a step (GathersOnce), all readers share one gather before the first micro-batch. With `regather`
// the backward gathers activations again, and only their parts are kept.
//
// Between stages with a slow link, a tensor that is replicated on an axis is sent in parts, if
// slicing before the link and gathering after takes less time.
//
// A partial value is reduced on the stage that made it, before it is sent to a reader that needs it
// reduced. A reader that sums it further gets the parts as they are. So each sum has the same terms
// in the same order wherever the model is split into stages.
//
// Partial values that a run reports are reduced: Graph::loss and Graph::outputs become the reduced
// tensors (the loss in the update phase).
//
// Guarantees: each op's inputs have exactly the SBP of its chosen signature and are on its stage
// (verify_graph.h proves it). Op::why of each op added names the reader that needed it.
//
// Next: proto/plan.proto, the plan that the graph becomes.
#pragma once

#include "absl/status/status.h"
#include "compiler/sbp/infer_sbp.h"
#include "oneflow_core/graph/graph.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// Requires the `choice` that InferSbp made for this very graph. `cluster` gives the costs of
// boxing: within a stage those on the stage alone, so that no number of stages changes a path;
// between stages those on the whole mesh.
absl::Status InsertBoxing(Graph* graph, const SbpChoice& choice, const proto::Cluster& cluster = {},
                          bool regather = false);

}  // namespace oneflow
