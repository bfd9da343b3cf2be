// What to change where a plan does not fit its devices.
#pragma once

#include "absl/status/status.h"
#include "compiler/compile.h"

namespace oneflow {

// `refused`, of compiling `source` with `options`, behind which stand the changes of one flag, and
// of all of them, with which the plan fits: a line each with its bytes and the simulated step.
// Tried are logits in pieces, more in the host's memory, more of a variable split, recompute, an
// update by the host, and twice as many micro-batches; where the host's memory is limited, also
// half of the activations there. Each takes as long as the compilation that was refused, and is
// reported on stderr. A change of micro-batches, of where gradients are reduced, or of what updates
// for a GPU moves bits; the line says so.
absl::Status WithFlagsThatFit(const absl::Status& refused, const GraphSource& source,
                              const PlanRequest& options);

}  // namespace oneflow
