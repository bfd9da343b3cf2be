// Reverse-mode differentiation: appends the backward ops of a loss with the gradient functions of
// the op registry. It does not sum the gradients of a variable. Each use has its own gradient,
// which accumulates over the micro-batches separately, because the order of sums must not depend on
// stages.
//
// Gradient ops have Phase::kBackward, the stage of their forward op, and its scope. Only tensors
// between a variable and the loss get a gradient. Gradients of an activation with several readers
// are summed by `add_n` in the order of the readers.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/sbp/gradient_mirror.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {

struct UseGradient {
  OpId use = -1;  // the forward op that reads the variable
  TensorId grad = -1;
};

// Gradients of one variable op (a replica, when several stages hold the variable).
struct VariableGradients {
  TensorId variable = -1;
  std::vector<UseGradient> uses;  // in op order, never empty
};

struct Gradients {
  std::vector<VariableGradients> variables;  // in op order
  std::vector<GradientMirror> mirrors;       // at most one for each gradient tensor
};

// Requires shapes, primitive ops and placed variables. `loss`: a scalar that depends on a variable.
// Op and tensor ids that were there before stay as they are.
absl::StatusOr<Gradients> Differentiate(Graph* graph, TensorId loss);

}  // namespace oneflow
