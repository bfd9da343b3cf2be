// ReportQueue: numbers that executions of programs report, on their way from the process that has
// them to process 0, which takes them execution by execution. They may come before it has begun the
// execution, or after its own part of it is over.
//
//   member's thread                          control thread of process 0
//   reports.Deliver(run, step, values)       reports.Take(run, take)      from now on, in order
//                                            ... the execution ...
//                                            RETURN_IF_ERROR(reports.Await(steps))
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "training/trainer/processes/wait.h"

namespace oneflow {

class ReportQueue {
 public:
  using TakeReport = std::function<void(int64_t step, std::span<const double> values)>;

  explicit ReportQueue(WaitUntil wait = WaitOnThread) : wait_(std::move(wait)) {}

  // Any thread, one at a time; executions in order. Allocates nothing for the one in progress.
  void Deliver(uint64_t run, int64_t step, std::span<const double> values);
  // Nothing comes any more.
  void End(const absl::Status& why);

  // Control thread. `take` is called for each report of execution `run`, on the thread that
  // delivers it, or on this one. Reports of earlier ones are dropped.
  void Take(uint64_t run, TakeReport take);
  // Control thread. The execution is over: `take` is not called any more once this has returned,
  // whatever comes late.
  void Leave();
  // Waits until the execution has reported `reports` times. The status of End, if that came first.
  absl::Status Await(int64_t reports);

 private:
  struct Report {
    uint64_t run;
    int64_t step;
    std::vector<double> values;
  };
  void Flush();

  const WaitUntil wait_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Report> waiting_;
  uint64_t run_ = 0;
  int64_t taken_ = 0;
  TakeReport take_;
  absl::Status ended_;
};

}  // namespace oneflow
