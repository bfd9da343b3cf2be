// Which exchanges of a stage go on while it computes, and on which stream.
//
//   kCollective   of activations and their gradients: compute waits for them
//   kGradient     of what is exchanged once a step: gradients, norms, weights gathered for the step
//   kReduction    of gradients of weights that are reduced as a micro-batch ends: only a sum waits
//   kGather       of weights that are gathered in every micro-batch, if they may run ahead, and the
//                 casts of the parts that they gather
//
// Apart, since the first of a layer must not wait until the gradient of the layer above has gone,
// nor a weight for either.
//
// A gather of a weight runs ahead where it needs nothing that its micro-batch computes and is read
// by the compute of its own task alone. A cast of a weight for such a gather goes with it, so it is
// not made on the compute stream, for which the gather would wait. Any other one, and all of them
// if none may run ahead, stays on the compute stream, just before its reader: nothing else would
// keep it from being gathered for all layers at once.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// By op. kCompute for all that is no exchange of a stage, nor a cast for one of lane kGather.
// Requires inserted boxing.
std::vector<Lane> ExchangeLanes(const Graph& graph, bool gathers_ahead);

}  // namespace oneflow
