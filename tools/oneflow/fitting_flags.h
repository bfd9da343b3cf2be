// What to change where a plan does not fit its devices.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "compiler/compile.h"

namespace oneflow {

// `refused`, of compiling `source` with `options`, behind which stand the changes of one flag, and
// of all of them, with which the plan fits: a line each with its bytes and the simulated step.
// Tried are more of a variable split, recompute, and twice as many micro-batches; each takes as
// long as the compilation that was refused, and is reported on stderr. A change of micro-batches,
// or of where gradients are reduced, moves bits; the line says so.
absl::Status WithFlagsThatFit(const absl::Status& refused, const GraphSource& source,
                              const CompileOptions& options);

}  // namespace oneflow
