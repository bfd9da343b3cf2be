// Appends the update of a step, all in Phase::kUpdate. For every logical variable with a gradient,
// in order of first appearance:
//
//   sum_uses      the gradients of its uses, in op order (left out for a single use)
//   sum_squares   once, on the lowest stage that holds it; with `split_dim` separately for each
//                 index of that dimension, and their sum_in_order
//   adamw         on each stage that holds it, with its own m and v ("wte/m", "wte@3/m");
//                 next_adamw if they have several versions, as the variable says
//   even_bias     instead of these, for a router's bias that a rule moves (route's `bias_rate`) by
//                 the choices of the step (count_choices.h); or next_even_bias
//
// On the stage of the loss it appends one global_norm ("grad_norm") over all sums of squares in
// variable order, which the other stages receive. If labels are counted (count_labels), gradients
// are sums: the norm is divided by the count, and adamw reads the count. A gradient passes from the
// backward phase to the update phase by accumulating over the micro-batches, so everything here
// fires once a step.
#pragma once

#include <cstdint>

#include "compiler/passes/differentiate.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

// The versions of the weights of a stage: see compiler/schedule/update_rule.h.
struct WeightVersions {
  int64_t lag = 0, versions = 1;
};

struct OptimizerOptions {
  bool wait_for_norm = true;  // adamw reads the norm: it clips by it, and skips what is not finite
  // By stage; empty: one version everywhere. With versions there is no norm, because stages do not
  // wait for it.
  std::vector<WeightVersions> versions;
};

// Requires placed variables, counted choices, and the gradients that Differentiate returned for
// this very graph.
absl::Status AddOptimizer(Graph* graph, const Gradients& gradients,
                          const OptimizerOptions& options = {});

}  // namespace oneflow
