// The order in which a program computes, before it has streams: for each actor its lane, its task,
// and its position in the task's work on the compute lane.
#pragma once

#include <compare>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/lower/lowered.h"

namespace oneflow {

// A value: it does not change with the program from which it was made.
class TaskOrder {
 public:
  explicit TaskOrder(const Lowered& lowered);

  Lane lane(int actor) const { return lane_[actor]; }
  const Task& task(int actor) const { return task_[actor]; }
  // The actor that writes a register of the program; -1: none.
  int FindWriter(int reg) const;

  // The position of an actor in the work of its task on the compute lane. An actor of another lane
  // has that of the first reader there of its outputs, perhaps by way of others. kNowhere: no
  // compute of the task reads them.
  static constexpr int kNowhere = std::numeric_limits<int>::max();
  int Position(int actor) const { return position_[actor]; }

  // The blocks of a task, numbered in its order. An actor outside of the blocks has the number of
  // the block before it, and -1 as its block.
  struct Use {
    int run = -1, block = -1;
    auto operator<=>(const Use&) const = default;
  };
  Use FindUse(int actor) const { return use_[actor]; }

  // The name of a task's segments: "F", or "F1" of a chunk.
  std::string Name(int stage, const Task& task) const;

 private:
  std::vector<Lane> lane_;  // by actor, and so are the next three
  std::vector<Task> task_;
  std::vector<int> position_;
  std::vector<Use> use_;
  std::map<int, int> writer_;  // by register
  std::map<std::pair<int, Task>, std::string> name_;
};

}  // namespace oneflow
