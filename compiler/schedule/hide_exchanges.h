// Puts kernels that nobody waits for where compute would wait for an exchange.
//
// In the backward a gradient of an activation is exchanged, and what comes next needs the result;
// the gradients of weights are needed in the update only. So while the exchange is carried a
// gradient of weights is computed, which was ready before:
//
//   as lowered   dx1 dW1 dx2 [exchange dx2; dW2] norm [exchange] dx3
//   after        dx1 dx2 [exchange dx2; dW2] norm [exchange; dW1] dx3
//
// What is put off holds its inputs for longer, so few are put off at a time, and only those that an
// exchange hides. Bits do not change: each gradient is summed for itself.
#pragma once

#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

// Reorders actors inside of segments of the backward. `seconds`: of a firing, by actor.
void HideExchanges(const std::vector<double>& seconds, Lowered* lowered);

}  // namespace oneflow
