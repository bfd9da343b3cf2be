// Processes: the processes of a training run, as one of them sees them. It joins them, carries
// their exchanges, keeps their runs in step, and ends all of them when one fails.
//
//   ASSIGN_OR_RETURN(auto processes, Processes::Join(options));
//   processes->Configure(&runtime_options);
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, runtime_options));
//   processes->Attach(runtime.get());
//   RETURN_IF_ERROR(processes->Run("train", context, steps));      the same runs in all processes
//   RETURN_IF_ERROR(processes->Leave());
//
// Where an exchange fails because another process is gone, all statuses say what happened there:
// Cause.
//
// It is no supervisor: nothing here starts an attempt again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/job/member.h"
#include "actor_runtime/network/ucx_network.h"
#include "tools/oneflow/processes/report_queue.h"
#include "tools/oneflow/processes/stop_point.h"

namespace oneflow {

struct ProcessesOptions {
  MemberOptions member;   // who, where, and what must be the same in all
  int ranks = 0;          // of the plan: each process owns as many, consecutive ones
  std::string interface;  // the network device of exchanges; empty: loopback
  // Of process 0: called when others may join, with the coordinator's port.
  std::function<void(int port)> on_listening;
};

class Processes {
 public:
  static absl::StatusOr<std::unique_ptr<Processes>> Join(ProcessesOptions options);
  ~Processes();

  bool IsFirst() const { return self_ == 0; }
  int count() const { return count_; }
  int index() const { return self_; }
  RankRange ranks() const;  // ours
  const Member& member() const { return *member_; }
  Member& member() { return *member_; }
  NetworkTotals totals() const { return network_->totals(); }

  // Of the runtime that runs our ranks: ranks, communicators, who spins.
  void Configure(RuntimeOptions* options);
  // From now on it ends when the attempt does; null: no more.
  void Attach(Runtime* runtime);

  // A run of the sequence that all processes make. What context.report gets arrives at process 0,
  // wherever it is reported: `reports` times a step of the run. There it returns when all is here.
  absl::Status Run(std::string_view program, RunContext context, int64_t steps,
                   int64_t reports = 0);
  // Steps of training that are done, at least.
  int64_t steps_done() const { return steps_done_; }
  // A signal came: all processes end after the same step. Any thread.
  void AskStop() { member_->AskStop(); }
  // Whether the runs end after the last one.
  bool stopped() const { return stopped_; }

  // All call it, in the same order. process 0's function makes of the parts, by process, what all
  // get.
  using Merge = std::function<absl::StatusOr<std::string>(std::span<const std::string> by_process)>;
  absl::StatusOr<std::string> Round(const std::string& name, std::string part, const Merge& merge);

  // Returns when all processes have come here.
  absl::Status Meet(const std::string& name);

  // This process cannot go on: nobody does. Returns why the attempt ended, which may be another
  // process's failure that ours came of.
  absl::Status Fail(const absl::Status& status);
  // A good end; returns when all have come to it.
  absl::Status Leave();

 private:
  explicit Processes(ProcessesOptions options);
  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const GroupAcross& across);
  void End(const absl::Status& why);

  const ProcessesOptions options_;
  const int self_, count_;
  std::vector<bool> connected_;  // by process
  bool started_ = false;         // the network's thread
  bool stopped_ = false;
  int64_t steps_done_ = 0;
  StopPoint stop_;
  ReportQueue reports_;
  std::mutex mutex_;
  Runtime* runtime_ = nullptr;  // under mutex_
  absl::Status ended_;          // under mutex_
  std::unique_ptr<UcxNetwork> network_;
  std::unique_ptr<Member> member_;  // its threads call all of the above
};

}  // namespace oneflow
