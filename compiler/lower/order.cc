#include "compiler/lower/order.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/runs.h"

namespace oneflow {
std::string TaskName(const Task& task, bool chunks) {
  static constexpr const char* kNames[] = {"P", "F", "B", "W", "U"};
  const std::string name = kNames[static_cast<size_t>(task.part)];
  const bool once = task.part == Part::kPrepare || task.part == Part::kUpdate;
  return chunks && !once ? absl::StrCat(name, task.chunk) : name;
}

std::vector<Task> Unrolled(const StageOrder& order) {
  std::vector<Task> tasks;
  for (const TaskRun& run : order) {
    for (int64_t i = 0; i < run.repeat; ++i) {
      tasks.insert(tasks.end(), run.tasks.begin(), run.tasks.end());
    }
  }
  return tasks;
}

StageOrder Compressed(const std::vector<Task>& tasks) {
  StageOrder order;
  for (const Run& run : FindRuns(tasks)) {
    const auto begin = tasks.begin() + static_cast<int64_t>(run.begin);
    Append({{begin, begin + static_cast<int64_t>(run.length)}, run.repeat}, &order);
  }
  return order;
}

StageOrder Folded(const StageOrder& order) {
  StageOrder folded;
  for (const Run& group : FindRuns(order)) {
    const auto begin = order.begin() + static_cast<int64_t>(group.begin);
    const StageOrder once(begin, begin + static_cast<int64_t>(group.length));
    size_t listed = 0, unrolled = 0;
    for (const TaskRun& run : once) {
      listed += run.tasks.size() * group.repeat;
      unrolled += run.tasks.size() * run.repeat;
    }
    if (unrolled < listed) {
      Append({Unrolled(once), group.repeat}, &folded);
      continue;
    }
    for (int64_t i = 0; i < group.repeat; ++i) Append(once, &folded);
  }
  return folded;
}

void Append(TaskRun run, StageOrder* order) {
  if (run.tasks.empty() || run.repeat == 0) return;
  if (!order->empty() && order->back().tasks == run.tasks) {
    order->back().repeat += run.repeat;
  } else {
    order->push_back(std::move(run));
  }
}

void Append(const StageOrder& runs, StageOrder* order) {
  for (const TaskRun& run : runs) Append(run, order);
}

}  // namespace oneflow
