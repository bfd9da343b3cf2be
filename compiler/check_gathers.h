// Whether weights that are gathered once a micro-batch can be.
#pragma once

#include "absl/status/status.h"
#include "compiler/compile.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// A weight that is gathered once a micro-batch is kept from its forward to its backward, so a stage
// holds as many copies as it has micro-batches in flight. An input error if that is more than one:
// it names the other times to gather, and their bytes. `graph`: annotated (annotate_model.h).
absl::Status CheckGathers(const Graph& graph, const CompileOptions& options,
                          const Schedule& schedule);

}  // namespace oneflow
