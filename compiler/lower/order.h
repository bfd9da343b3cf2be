// The order in which one stage runs its tasks in a step: a list of tasks, run-length coded. A
// value: schedules (schedule.h) and users (order_file.h) decide the tasks and their order.
//
//   F×3 (B F)×5 B×3          three forwards, five times a backward and a forward, three backwards
//   F0×2 F1×2 (F0 B1)×2 ...  of chunks 0 and 1
//
// The n-th occurrence of a task is its micro-batch n. Micro-batches of one task always come in
// turn, so that all schedules add up gradients in the same order.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace oneflow {

// Forward, backward, and prepare and update of a step. If a schedule splits the backward, kBackward
// is the gradient of activations and kWeights that of weights.
enum class Part : uint8_t { kPrepare, kForward, kBackward, kWeights, kUpdate };

struct Task {
  Part part = Part::kForward;
  int chunk = 0;  // of kForward, kBackward and kWeights
  auto operator<=>(const Task&) const = default;
};

// A run: `tasks` in this order, `repeat` times over (never 0).
struct TaskRun {
  std::vector<Task> tasks;
  int64_t repeat = 1;
  bool operator==(const TaskRun&) const = default;
};
using StageOrder = std::vector<TaskRun>;

// Lists the tasks of an order one by one.
std::vector<Task> Unrolled(const StageOrder& order);

// Returns the same order in few runs: from the front, each the repetition that covers most.
StageOrder Compressed(const std::vector<Task>& tasks);

// Returns the same order with fewer runs: runs that repeat in turn become one run of all their
// tasks, if that is shorter. Runs do not nest.
//
//   (F B)×2 U (F B)×2 U    (F B F B U)×2
//   (F B)×9 U (F B)×9 U    as it is
StageOrder Folded(const StageOrder& order);

// Adds `run` behind `order`, as more repeats of its last run if that has the same tasks. Does
// nothing for no repeats or no tasks.
void Append(TaskRun run, StageOrder* order);
void Append(const StageOrder& runs, StageOrder* order);

// The name of a task: "P", "F", "B", "W", "U"; if `chunks`, with the chunk: "F0".
std::string TaskName(const Task& task, bool chunks);

}  // namespace oneflow
