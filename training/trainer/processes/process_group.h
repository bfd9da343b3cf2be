// ProcessGroup: the processes of a training run as the trainer sees them, whatever carries their
// messages. Three kinds: SoleProcess, a group of one; Processes (processes.h), those of a job; and
// those of the simulated cluster in tests.
//
//   RETURN_IF_ERROR(group->Divide(ranks_of_the_plan));
//   group->Configure(&runtime_options);
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, runtime_options));
//   group->Attach(runtime.get());
//   RETURN_IF_ERROR(group->Run("train", context, steps, 1));      the same in all processes
//   if (group->stopped()) ... it ended early, in all of them after the same step ...
//   ASSIGN_OR_RETURN(std::string answer, group->Round("checkpoint", part, merge));
//   group->Attach(nullptr);
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/kernel/run_context.h"
#include "training/trainer/processes/runs_in_step.h"

namespace oneflow {

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int index() const = 0;
  virtual int count() const = 0;
  bool IsFirst() const { return index() == 0; }

  // Each process owns as many of a plan's ranks, consecutive ones. Refuses a number that the
  // processes do not divide. Before whatever concerns ranks.
  absl::Status Divide(int ranks);
  RankRange ranks() const { return {index() * each_, (index() + 1) * each_}; }  // this process's

  // Sets what the runtime of this process's ranks needs of the group: ranks, communicators, kernel
  // threads. `options->threads`: those of all processes together; 0: as many as there are cores.
  virtual void Configure(RuntimeOptions* options) = 0;
  // The runtime that executes programs; null: no more, before it goes.
  virtual void Attach(Runtime* runtime) = 0;

  // Executes a program, the same in all processes and in the same order. Reports to context.report
  // arrive at process 0, from all processes: `reports` a step. There it returns when all have
  // arrived.
  virtual absl::Status Run(std::string_view program, RunContext context, int64_t steps,
                           int64_t reports) = 0;
  // Executions end, in all processes after the same step. Any thread, repeatedly.
  virtual void AskStop() = 0;
  // True if all have agreed that no execution follows the last one.
  virtual bool stopped() const = 0;

  // All call it, in the same order. process 0's function makes of the parts, by process, what all
  // get. Its error is a failure of process 0, and ends all.
  using Merge = std::function<absl::StatusOr<std::string>(std::span<const std::string> by_process)>;
  virtual absl::StatusOr<std::string> Round(const std::string& name, std::string part,
                                            const Merge& merge) = 0;
  // Returns when all processes have come here.
  absl::Status Meet(const std::string& name) {
    return Round(name, "", [](std::span<const std::string>) { return std::string(); }).status();
  }

  // Tells process 0, whose function of notes hears it. Any thread.
  virtual void Note(const std::string& name, const std::string& value) = 0;
  // Publishes a value for all, once a key, and waits for one that another process publishes.
  virtual void Post(const std::string& /*key*/, const std::string& /*value*/) {}
  virtual absl::StatusOr<std::string> Fetch(const std::string& key);

  // True while shared files may be written to: false once the others go on without this process, or
  // have ended. Any thread. AwaitMayWrite waits where that is not known.
  virtual bool MayWrite() const = 0;
  virtual bool AwaitMayWrite() = 0;

  // Process 0's CLOCK_BOOTTIME minus this process's, and the greatest error. Waits until it is
  // known, or the attempt has ended.
  struct ClockOffset {
    double seconds = 0, error_seconds = 0;
  };
  virtual ClockOffset AwaitClockOffset() const { return {}; }

  // Processes of the group on this one's host, and which of them it is.
  virtual int processes_on_host() const { return 1; }
  virtual int index_on_host() const { return 0; }

  // OK while the attempt goes on, and after a good end.
  virtual absl::Status status() const { return absl::OkStatus(); }
  // Steps of training that are done, at least.
  virtual int64_t steps_done() const = 0;
  // This process cannot go on: nobody does. Returns why the attempt ended, which may be another
  // process's failure that ours came of.
  virtual absl::Status Fail(const absl::Status& status) { return status; }
  // A good end; returns when all have come to it.
  virtual absl::Status Leave() { return absl::OkStatus(); }

  // The memory that connections to other processes take, as a line for people; "": there are none.
  virtual std::string MemoryOfLinks() const { return ""; }

 private:
  int each_ = 0;  // ranks of a process
};

// Refuses a number of processes that does not divide the ranks of a plan.
absl::Status CheckDivides(int processes, int ranks);

// A group of one: a round is its own merge, and the runtime alone executes.
class SoleProcess final : public ProcessGroup {
 public:
  // Called with what is noted; null: nobody listens.
  using NoteTaker =
      std::function<void(int process, const std::string& name, const std::string& value)>;
  explicit SoleProcess(NoteTaker on_note = nullptr)
      : on_note_(std::move(on_note)), runs_(/*is_first=*/true, {}) {}

  int index() const override { return 0; }
  int count() const override { return 1; }
  void Configure(RuntimeOptions* options) override;
  void Attach(Runtime* runtime) override { runs_.Attach(runtime); }
  absl::Status Run(std::string_view program, RunContext context, int64_t steps,
                   int64_t reports) override {
    return runs_.Run(program, std::move(context), steps, reports);
  }
  void AskStop() override { runs_.StopAt(runs_.Freeze()); }
  bool stopped() const override { return runs_.stopped(); }
  absl::StatusOr<std::string> Round(const std::string&, std::string part,
                                    const Merge& merge) override {
    return merge({&part, 1});
  }
  void Note(const std::string& name, const std::string& value) override {
    if (on_note_) on_note_(0, name, value);
  }
  bool MayWrite() const override { return true; }
  bool AwaitMayWrite() override { return true; }
  int64_t steps_done() const override { return runs_.steps_done(); }

 private:
  const NoteTaker on_note_;
  RunsInStep runs_;
};

}  // namespace oneflow
