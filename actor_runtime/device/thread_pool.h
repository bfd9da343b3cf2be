// ThreadPool: the kernel threads of ONE device: the worker that calls plus n - 1 more. It is
// neither a global pool nor a task queue: it runs one parallel loop at a time, called only by the
// device's worker.
#pragma once

#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"

namespace oneflow {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1; starts threads - 1
  ~ThreadPool();
  int threads() const;
  // Calls fn(task, thread) for each task in [0, tasks), with thread in [0, threads()), and returns
  // when all calls are done. A thread begins with the tasks from thread * tasks / threads() on, so
  // neighbouring tasks should touch neighbouring memory; a thread that is done early takes tasks of
  // the others. The thread that runs a task is not fixed, so fn's result must not depend on it.
  // Allocates nothing.
  void ParallelFor(int tasks, absl::FunctionRef<void(int task, int thread)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
