// Plays the orders of a pipeline by a virtual clock, before there is a plan: finds when each stage
// begins and ends if tasks and links take set times. Reports a deadlock of orders in the user's own
// terms, and the bubble of a schedule. It is neither the proof, which plays the plan's actors and
// slots, nor the simulator, which knows the times of kernels and links.
//
//   ASSIGN_OR_RETURN(const PlayedSteps steps, PlayOrders(orders, /*chunks=*/1, Alike(4, {1, 2})));
//   double last = 0;  // when the step is over
//   for (const PlayedStep& stage : steps[0]) last = std::max(last, stage.end);
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lower/order.h"

namespace oneflow {

// The seconds of the tasks of one micro-batch through one chunk.
struct TaskSeconds {
  double forward = 1;
  double backward = 2;  // of activations alone where weights are a task of their own
  double weights = 1;
};

struct PipeSeconds {
  std::vector<TaskSeconds> stages;
  // By stage: seconds of a transfer to or from the next stage. The last entry is for the link from
  // the last stage to the first. Empty: links take no time. Any number of transfers may be in
  // flight.
  std::vector<double> links;
  // By position along the pipe, chunk * stages + stage, if the chunks of a stage differ. Empty: all
  // take the times of `stages`.
  std::vector<TaskSeconds> slices = {};
  // By slice: seconds at the begin of its backward that wait for no gradient of another stage, such
  // as recomputation. Empty: none.
  std::vector<double> ahead = {};
};
PipeSeconds Alike(int stages, const TaskSeconds& seconds);

// The times at which a stage begins the first task of a step, and ends the last.
struct PlayedStep {
  double begin = 0, end = 0;
};
using PlayedSteps = std::vector<std::vector<PlayedStep>>;  // [step][stage]

// Plays `steps` steps, which follow one another as each stage ends its own: no stage waits for the
// others' updates. FAILED_PRECONDITION with the cycle, stage by stage, if the orders wait for each
// other. Requires seconds of as many stages.
absl::StatusOr<PlayedSteps> PlayOrders(const std::vector<StageOrder>& orders, int chunks,
                                       const PipeSeconds& seconds, int steps = 1);

// The text of a task as a user writes it: "F3", of chunk 1 "F3.1".
std::string TaskText(const Task& task, int64_t micro_batch);

}  // namespace oneflow
