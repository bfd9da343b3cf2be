// Moves kernels whose results nobody awaits to positions where compute would wait for an exchange.
//
// In the backward the gradient of an activation is exchanged, and the next kernel needs the result.
// Gradients of weights are needed only in the update. So a gradient of weights that was ready
// before is computed during the exchange:
//
//   as lowered   dx1 dW1 dx2 [exchange dx2; dW2] norm [exchange] dx3
//   after        dx1 dx2 [exchange dx2; dW2] norm [exchange; dW1] dx3
//
// A delayed kernel holds its inputs for longer. So few are delayed at a time, and only those that
// an exchange hides. Bits do not change, because each gradient is summed separately.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

// Reorders actors inside segments of the backward. `seconds`: of a firing, by actor.
void HideExchanges(const std::vector<double>& seconds, Lowered* lowered);

}  // namespace oneflow
