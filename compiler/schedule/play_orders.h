// The orders of a pipeline played by a virtual clock, before there is a plan: when each stage is
// done if all its tasks take set times and links none. Tells a dead set of orders in the user's own
// terms, and the bubble of a schedule. It is neither the proof, which plays the plan's actors and
// slots, nor the simulator, which knows what kernels and links cost.
//
//   ASSIGN_OR_RETURN(const PlayedSteps steps, PlayOrders(orders, /*chunks=*/1, {1, 2}));
//   double makespan = *std::max_element(steps[0].begin(), steps[0].end());
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/order.h"

namespace oneflow {

// Of one micro-batch through one chunk.
struct TaskSeconds {
  double forward = 1;
  double backward = 2;  // of activations alone where weights are a task of their own
  double weights = 1;
};

// When each stage ends each step: [step][stage].
using PlayedSteps = std::vector<std::vector<double>>;

// Steps follow one another as each stage ends its own: no stage waits for the others' updates.
// FAILED_PRECONDITION with the cycle, stage by stage, where the orders wait for each other.
absl::StatusOr<PlayedSteps> PlayOrders(const std::vector<StageOrder>& orders, int chunks,
                                       const TaskSeconds& seconds, int steps = 1);

// "F3", of chunk 1 "F3.1": as a user writes it.
std::string TaskText(const Task& task, int64_t micro_batch);

}  // namespace oneflow
