#include "actor_runtime/kernel/adam_numbers.h"

#include <cmath>

namespace oneflow {

AdamNumbers MakeAdamNumbers(const StepNumbers& step, bool decay, double norm, double count) {
  AdamNumbers a{.learning_rate = step.learning_rate,
                .beta1 = step.beta1,
                .beta2 = step.beta2,
                .epsilon = step.epsilon,
                .decay = decay ? step.weight_decay : 0.0,
                .clip_factor = ClipFactor(step.clip, norm) * MeanFactor(count)};
  const double updates = static_cast<double>(step.step + 1);
  a.correction1 = 1.0 - std::pow(step.beta1, updates);
  a.correction2 = 1.0 - std::pow(step.beta2, updates);
  return a;
}

}  // namespace oneflow
