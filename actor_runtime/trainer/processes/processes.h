// Processes: the processes of a training run, as one of them sees them. It joins them, carries
// their exchanges, keeps their runs in step, and ends all of them when one fails.
//
//   ASSIGN_OR_RETURN(auto processes, Processes::Join(options));
//   RETURN_IF_ERROR(processes->Divide(ranks_of_the_plan));
//   processes->Configure(&runtime_options, 0);
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, runtime_options));
//   processes->Attach(runtime.get());
//   RETURN_IF_ERROR(processes->Run("train", context, steps));      the same runs in all processes
//   RETURN_IF_ERROR(processes->Leave());
//
// If an exchange fails because another process is gone, all statuses say what happened there:
// Cause.
//
// It is not a supervisor: nothing here restarts an attempt.
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
#include "actor_runtime/trainer/processes/cores_of_host.h"
#include "actor_runtime/trainer/processes/process_group.h"
#include "actor_runtime/trainer/processes/report_sender.h"
#include "actor_runtime/trainer/processes/runs_in_step.h"

namespace oneflow {

struct ProcessesOptions {
  MemberOptions member;   // who, where, and what must be the same in all
  std::string interface;  // the network device of exchanges; empty: loopback
  // Process 0 alone: called when others may join, with the coordinator's port.
  std::function<void(int port)> on_listening;
  // Asked now and then until all have joined: why they never will. May be empty.
  std::function<absl::Status()> while_joining;
  // Called now and then until all have joined: for whom this process waits. May be empty.
  std::function<void(const std::string& missing)> on_waits;
  // Process 0 alone: called with the notes of all processes (Member::Note).
  std::function<void(int process, const std::string& name, const std::string& value)> on_note;
};

// Refuses a number of processes that does not divide the ranks of a plan.
absl::Status CheckDivides(int processes, int ranks);

class Processes final : public ProcessGroup {
 public:
  static absl::StatusOr<std::unique_ptr<Processes>> Join(ProcessesOptions options);
  ~Processes() override;

  // Each owns as many of a plan's ranks, consecutive ones. To be called once, before all of the
  // below that is about ranks or runs.
  absl::Status Divide(int ranks);

  bool IsFirst() const override { return self_ == 0; }
  int count() const { return count_; }
  int index() const { return self_; }
  RankRange ranks() const { return {self_ * each_, (self_ + 1) * each_}; }  // ours
  const Member& member() const { return *member_; }
  Member& member() { return *member_; }
  NetworkTotals totals() const { return network_->totals(); }
  TransportMemory transport_memory() const { return network_->memory(); }

  // Sets ranks, communicators, kernel threads and spinning of the runtime of our ranks. `threads`:
  // kernel threads of all processes together; 0: as many as this one has cores.
  void Configure(RuntimeOptions* options, int threads);
  // From now on it ends when the attempt does; null: no more.
  void Attach(Runtime* runtime);

  absl::Status Run(std::string_view program, RunContext context, int64_t steps,
                   int64_t reports) override;
  // Steps of training that are done, at least.
  int64_t steps_done() const { return runs_.steps_done(); }
  // A signal came: all processes end after the same step. Any thread.
  void AskStop() { member_->AskStop(); }
  bool stopped() const override { return runs_.stopped(); }

  absl::StatusOr<std::string> Round(const std::string& name, std::string part,
                                    const Merge& merge) override;

  // This process cannot go on: nobody does. Returns why the attempt ended, which may be another
  // process's failure that ours came of.
  absl::Status Fail(const absl::Status& status);
  // True while shared files may be written to: false once the others go on without this process, or
  // have ended. Waits where that is not known.
  bool AwaitMayWrite() { return member_->AwaitMayWrite(); }
  // A good end; returns when all have come to it.
  absl::Status Leave();

 private:
  explicit Processes(ProcessesOptions options);
  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const Group& group,
                                                                 const ExchangeBounds& bounds);
  absl::StatusOr<CoreShare> ShareCoresOfHost();
  absl::StatusOr<std::string> ChooseTransports();
  void End(const absl::Status& why);

  const ProcessesOptions options_;
  const int self_, count_;
  int each_ = 0;                 // ranks of a process
  std::vector<bool> connected_;  // by process
  bool far_ = false;             // a communicator of ours reaches another process
  bool started_ = false;         // the network's thread
  CoreShare cores_;
  RunsInStep runs_;
  std::unique_ptr<UcxNetwork> network_;
  std::unique_ptr<Member> member_;  // its threads call all of the above
  ReportSender sender_;             // to it
};

}  // namespace oneflow
