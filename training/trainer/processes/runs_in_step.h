// RunsInStep: the executions of programs in one of many processes, one after the other: the step
// after which each ends, the way of its reports, and their end with the attempt. It knows no
// network and no coordinator: it sends by functions, and messages of others come as events.
//
//   RunsInStep runs(is_first, {.begins = ..., .report = ..., .fail = ...});
//   runs.Attach(runtime);
//   RETURN_IF_ERROR(runs.Run("train", context, steps, 1));         control thread
//   const StepPosition position = runs.Freeze();                   any thread, the events
//   runs.StopAt(greatest);
//
// Guarantees: all processes that get the same StopAt end after the same step of the same execution.
// After End an execution in progress ends soon, and every Run returns that status.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "actor_runtime/exec/runtime.h"
#include "training/job/job.h"
#include "training/trainer/processes/report_queue.h"
#include "training/trainer/processes/stop_point.h"
#include "training/trainer/processes/wait.h"

namespace oneflow {

class RunsInStep {
 public:
  // The calls by which this process sends to the others. None of them waits, but for the last two.
  // The defaults are for a process alone.
  struct Calls {
    // It begins execution number `run`.
    std::function<void(uint64_t run, std::string_view program, int64_t first_step, int64_t steps)>
        begins = [](uint64_t, std::string_view, int64_t, int64_t) {};
    // To process 0's Deliver; process 0 itself does not call it. Null where there are no others.
    std::function<void(uint64_t run, int64_t step, std::span<const double> values)> report;
    // It cannot go on.
    std::function<void(const absl::Status& why)> fails = [](const absl::Status&) {};
    // After `fails`: returns why the attempt ended, as far as it is known.
    std::function<absl::Status()> await_end = [] { return absl::OkStatus(); };
    // After an execution that has failed: when it returns, the network touches no memory of the
    // runtime.
    std::function<void(const absl::Status& why)> let_go = [](const absl::Status&) {};
  };
  RunsInStep(bool is_first, Calls calls, const WaitUntil& wait = WaitOnThread);

  // Control thread.
  // Null: no more, before the runtime goes.
  void Attach(Runtime* runtime);
  // Does what ProcessGroup::Run does. Requires an attached runtime.
  absl::Status Run(std::string_view program, RunContext context, int64_t steps, int64_t reports);
  bool stopped() const { return stopped_; }  // no execution follows the last one
  // Steps of training that are done, at least.
  int64_t steps_done() const { return steps_done_; }

  // Any thread.
  // Begins no further step; where it is.
  StepPosition Freeze() { return stop_.Hold(); }
  // At least what Freeze said.
  void StopAt(const StepPosition& end);
  // Process 0 alone: a report of another process; executions in order.
  void Deliver(uint64_t run, int64_t step, std::span<const double> values);
  // The attempt has ended with an error.
  void End(const absl::Status& why);

 private:
  absl::Status Ended();

  const bool is_first_;
  const Calls calls_;
  bool stopped_ = false;
  std::atomic<int64_t> steps_done_{0};
  absl::Status failed_;  // an execution's failure
  StopPoint stop_;
  ReportQueue reports_;
  std::mutex mutex_;
  Runtime* runtime_ = nullptr;  // under mutex_
  absl::Status ended_;          // under mutex_
};

}  // namespace oneflow
