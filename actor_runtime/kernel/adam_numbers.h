// AdamNumbers: the factors of one AdamW update, computed from the numbers of a step. Internal to
// kernel/ and cuda/kernel/.
//
//   v.adamw(MakeAdamNumbers(run.optimizer(step), decay, norm), g, w, m, v, n);
#pragma once

#include "actor_runtime/kernel/label_count.h"
#include "actor_runtime/kernel/run_context.h"
#include "actor_runtime/kernel/simd/vector_kernels.h"

namespace oneflow {

// The clip factor of a gradient whose norm is `norm`; clip 0 clips nothing.
constexpr double ClipFactor(double clip, double norm) {
  if (!(clip > 0)) return 1.0;
  const double factor = clip / (norm + 1e-6);
  return factor < 1.0 ? factor : 1.0;
}

// `decay`: true if the variable has weight decay. The gradient is a sum over `count` labels; `norm`
// is that of the mean.
AdamNumbers MakeAdamNumbers(const StepNumbers& step, bool decay, double norm, double count = 1);

}  // namespace oneflow
