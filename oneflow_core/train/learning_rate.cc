#include "oneflow_core/train/learning_rate.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {

absl::Status CheckOptimizer(const proto::Optimizer& o, std::string_view where) {
  RETURN_IF_ERROR(CheckFields(OptimizerRows(), o, [&](const Row&) { return std::string(where); }));
  if (o.min_learning_rate() > o.learning_rate()) {
    return InputError(
        absl::StrCat(ToAbsl(where), "min_learning_rate=", o.min_learning_rate()), "is out of range",
        absl::StrCat("use a number from 0 to the learning rate, ", o.learning_rate()));
  }
  if (o.decay_steps() > 0 && o.decay_steps() <= o.warmup_steps()) {
    return InputError(absl::StrCat(ToAbsl(where), "decay_steps=", o.decay_steps()),
                      absl::StrCat("is not after the warm-up of ", o.warmup_steps(), " steps"),
                      "give the step at which the decay ends, counted from step 0");
  }
  return absl::OkStatus();
}

absl::Status CheckClip(const proto::Optimizer& optimizer, bool global_norm) {
  if (global_norm || !(optimizer.clip() > 0)) return absl::OkStatus();
  return InputError(absl::StrCat("--clip=", optimizer.clip()),
                    "needs the norm of all gradients, for which no update of this plan waits",
                    "use --clip=0, or --global_norm and a schedule whose steps do not overlap");
}

double LearningRate(const proto::Optimizer& o, int64_t step, int64_t total_steps) {
  const double peak = o.learning_rate();
  const int64_t warmup = o.warmup_steps();
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (o.lr_schedule() == proto::Optimizer::CONSTANT) return peak;

  const int64_t end = o.decay_steps() > 0 ? o.decay_steps() : total_steps;
  if (step >= end) return o.min_learning_rate();
  const double done = static_cast<double>(step - warmup) / static_cast<double>(end - warmup);
  const double left = o.lr_schedule() == proto::Optimizer::LINEAR
                          ? 1 - done
                          : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return o.min_learning_rate() + (peak - o.min_learning_rate()) * left;
}

}  // namespace oneflow
