// The numbers of an optimizer as functions of the step. There is no state here, so a resumed run
// only needs the step at which it resumes.
//
//   RETURN_IF_ERROR(CheckOptimizer(optimizer, "--"));  // "--clip=-1: is out of range; ..."
//   double lr = LearningRate(optimizer, step, total_steps);
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "proto/train.pb.h"

namespace oneflow {

// Returns an InputError for numbers that make no sense: rates, betas, negative steps, a decay that
// ends before the warm-up does. `where` comes before the name of the number.
absl::Status CheckOptimizer(const proto::Optimizer& optimizer, std::string_view where);

// Returns an InputError for numbers that need the norm of all gradients where updates do not wait
// for it.
absl::Status CheckClip(const proto::Optimizer& optimizer, bool global_norm);

// Returns the learning rate of `step` (0-based) in a run of `total_steps`. Warm-up, w steps: peak *
// (step + 1) / w. Then it is constant, or falls from the peak at step w along a line or half a
// cosine. It reaches min_learning_rate at step decay_steps (0: total_steps), and stays there.
double LearningRate(const proto::Optimizer& optimizer, int64_t step, int64_t total_steps);

}  // namespace oneflow
