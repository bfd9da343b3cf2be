// Changes with which a plan fits its devices, for one that does not.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "compiler/compile.h"

namespace oneflow {

// `refused`, of MakePlan of these arguments, behind which stand the changes of one choice, and of
// all of them, with which the plan fits: a line each with its bytes and the simulated step. Tried
// are logits in pieces, more in the host's memory, more of a variable split, recompute, an update
// by the host, and twice as many micro-batches; where the host's memory is limited, also half of
// the activations there. Each takes as long as the plan that was refused, and `report` gets a
// sentence of it. A change of pieces of logits, of micro-batches, of where gradients are reduced,
// or of what updates for a GPU moves bits; the line says so.
absl::Status WithChangesThatFit(const absl::Status& refused, const GraphSource& source,
                                const PlanRequest& request,
                                const std::function<void(const std::string&)>& report);

}  // namespace oneflow
