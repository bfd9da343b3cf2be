#include "oneflow_core/train/learning_rate.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

absl::Status Refuse(std::string_view where, std::string_view field, double value,
                    std::string_view hint) {
  return InputError(absl::StrCat(ToAbsl(where), ToAbsl(field), "=", value), "is out of range",
                    hint);
}

bool Within(double value, double low, double high) { return value >= low && value < high; }

constexpr double kNoBound = std::numeric_limits<double>::infinity();

absl::Status CheckSteps(const proto::Optimizer& o, std::string_view where) {
  if (o.warmup_steps() < 0) {
    return Refuse(where, "warmup_steps", o.warmup_steps(), "use 0 for no warm-up");
  }
  if (o.decay_steps() < 0) {
    return Refuse(where, "decay_steps", o.decay_steps(), "use 0 to decay until the last step");
  }
  if (o.decay_steps() > 0 && o.decay_steps() <= o.warmup_steps()) {
    return InputError(absl::StrCat(ToAbsl(where), "decay_steps=", o.decay_steps()),
                      absl::StrCat("is not after the warm-up of ", o.warmup_steps(), " steps"),
                      "give the step at which the decay ends, counted from step 0");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOptimizer(const proto::Optimizer& o, std::string_view where) {
  if (!Within(o.learning_rate(), 0, kNoBound) || o.learning_rate() == 0) {
    return Refuse(where, "learning_rate", o.learning_rate(), "use a positive number such as 3e-4");
  }
  if (!Within(o.min_learning_rate(), 0, kNoBound) || o.min_learning_rate() > o.learning_rate()) {
    return Refuse(where, "min_learning_rate", o.min_learning_rate(),
                  absl::StrCat("use a number from 0 to the learning rate, ", o.learning_rate()));
  }
  if (!Within(o.beta1(), 0, 1)) {
    return Refuse(where, "beta1", o.beta1(), "use a number in [0, 1), such as 0.9");
  }
  if (!Within(o.beta2(), 0, 1)) {
    return Refuse(where, "beta2", o.beta2(), "use a number in [0, 1), such as 0.95");
  }
  if (!Within(o.epsilon(), 0, kNoBound) || o.epsilon() == 0) {
    return Refuse(where, "epsilon", o.epsilon(), "use a positive number such as 1e-8");
  }
  if (!Within(o.weight_decay(), 0, kNoBound)) {
    return Refuse(where, "weight_decay", o.weight_decay(), "use 0 for none");
  }
  if (!Within(o.clip(), 0, kNoBound)) {
    return Refuse(where, "clip", o.clip(), "use 0 for no clipping");
  }
  return CheckSteps(o, where);
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
