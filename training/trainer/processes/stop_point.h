// StopPoint: the early end of a sequence of executions, on which its processes agree. All processes
// make the same executions, but not at the same time; they end after the same step of the same one.
//
//   control thread                     any thread, when a process has asked for the end
//   gate = stop.StartRun()             position = stop.Hold()     each: begin nothing further
//   runtime.Run(..., {.gate = gate})   ... the greatest position of all processes ...
//   if (stop.StopHere()) end           stop.EndAt(greatest)       each
//
// Invariants (under mutex_):
//  1. Executions are numbered from 1; number_ is that of the one in progress, or of the last one.
//  2. From Hold to EndAt the control thread passes no boundary of executions and begins no step, so
//     Hold's answer stays true. It waits at most until the processes have agreed.
//  3. Between two executions a process is at the begin of the next one: it has looked whether to
//  stop.
//  4. Once end_ is set nothing is held any more: Hold only says where the process is.
//  5. Every process stops at the same boundary: after the execution that end_ names.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "actor_runtime/exec/step_gate.h"
#include "training/job/job.h"
#include "training/trainer/processes/wait.h"

namespace oneflow {

class StopPoint {
 public:
  explicit StopPoint(WaitUntil wait = WaitOnThread) : wait_(std::move(wait)) {}

  // Control thread. The next execution begins; returns its gate, which lets no step begin if the
  // sequence has ended: one that goes on all the same, as that of a checkpoint, has no gate.
  StepGate* StartRun();
  // Control thread, once after each execution: true if the sequence ends after it.
  bool StopHere();
  // Control thread: the number of the execution in progress, or of the last one; 0 before the
  // first.
  uint64_t number() const { return number_; }

  // Any thread. The steps that have begun in the execution in progress, or in the last one.
  int64_t begun() const { return gate_.begun(); }
  StepPosition Hold();
  // At least what Hold said. `wake`: has the workers look at the gate.
  void EndAt(const StepPosition& end, const std::function<void()>& wake);
  // Nobody will agree on anything any more: nothing waits, no step begins. Requires
  // that the workers are woken afterwards.
  void Abandon();

 private:
  const WaitUntil wait_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t number_ = 0;
  bool running_ = false, held_ = false, abandoned_ = false;
  std::optional<StepPosition> end_;
  StepGate gate_;
};

}  // namespace oneflow
