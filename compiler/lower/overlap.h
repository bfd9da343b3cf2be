// Chooses the exchanges of a stage that run while it computes, and their streams.
//
//   kCollective   of activations and their gradients: compute waits for them
//   kGradient     of data exchanged once a step: gradients, norms, weights gathered for the step
//   kReduction    of gradients of weights that are reduced as a micro-batch ends: only a sum waits
//   kGather       of weights that are gathered in every micro-batch, if they may run ahead, and the
//                 casts of the parts that they gather
//
// The streams are separate because the first exchange of a layer must not wait for the gradient of
// the layer above, and a weight for neither.
//
// A gather of a weight runs ahead if it needs nothing that its micro-batch computes, and only the
// compute of its own task reads it. A cast of a weight for such a gather goes with it: on the
// compute stream, the gather would wait for it. All other gathers, and all of them if none may run
// ahead, stay on the compute stream, just before their readers. Otherwise nothing would keep them
// from being gathered for all layers at once.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Returns the lane of each op: kCompute unless it is an exchange of a stage, or a cast for one of
// lane kGather. Requires inserted boxing.
std::vector<Lane> ExchangeLanes(const Graph& graph, bool gathers_ahead);

}  // namespace oneflow
