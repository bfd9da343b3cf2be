// Checks that weights which are gathered once a micro-batch are not held in several copies.
#pragma once

#include "absl/status/status.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/graph/graph.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Such a weight is kept from its forward to its backward, so a stage holds as many copies as it has
// micro-batches in flight. More than one is an input error, which names the other times to gather,
// and their bytes. Requires an annotated `graph` (annotate_model.h).
absl::Status CheckGathers(const Graph& graph, const proto::Recipe& recipe,
                          const Schedule& schedule);

}  // namespace oneflow
