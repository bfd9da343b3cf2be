// Finds the bias of a router that a rule of its own moves, instead of a gradient.
#pragma once

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// For an op with a positive `bias_rate`: its bias, input 1, which the update moves for each expert
// (even_bias in optimizer.cc). Returns -1 if the op has none, or a gradient moves it.
inline TensorId FindMovedBias(const Op& op) {
  const auto rate = op.attrs.find("bias_rate");
  if (rate == op.attrs.end() || op.inputs.size() < 2) return -1;
  return AttrDouble(op, "bias_rate") > 0 ? op.inputs[1] : -1;
}

}  // namespace oneflow
