// Processes: the processes of a training run, as one of them sees them. It joins them, carries
// their exchanges, keeps their executions in step, and ends all of them when one fails.
//
//   ASSIGN_OR_RETURN(auto processes, Processes::Join(options));
//   RETURN_IF_ERROR(processes->Divide(ranks_of_the_plan));
//   processes->Configure(&runtime_options);
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, runtime_options));
//   processes->Attach(runtime.get());
//   RETURN_IF_ERROR(processes->Run("train", context, steps, 1));   the same in all processes
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
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/runtime.h"
#include "actor_runtime/network/ucx_network.h"
#include "training/job/member.h"
#include "training/trainer/processes/cores_of_host.h"
#include "training/trainer/processes/process_group.h"
#include "training/trainer/processes/report_sender.h"
#include "training/trainer/processes/runs_in_step.h"

namespace oneflow {

struct ProcessesOptions {
  MemberOptions member;   // this process, its address, and values that must be the same in all
  std::string interface;  // the network device of exchanges; empty: loopback
  // Process 0 alone: called when others may join, with the coordinator's port.
  std::function<void(int port)> on_listening;
  // Asked now and then until all have joined: why they never will. May be empty.
  std::function<absl::Status()> while_joining;
  // Called now and then until all have joined: for whom this process waits. May be empty.
  std::function<void(const std::string& missing)> on_waits;
  // Gets warnings. May be empty.
  std::function<void(const std::string& warning)> notice;
  // Process 0 alone: called with the notes of all processes (Member::Note).
  std::function<void(int process, const std::string& name, const std::string& value)> on_note;
};

class Processes final : public ProcessGroup {
 public:
  static absl::StatusOr<std::unique_ptr<Processes>> Join(ProcessesOptions options);
  ~Processes() override;

  int count() const override { return count_; }
  int index() const override { return self_; }
  std::string MemoryOfLinks() const override;

  // Spinning, too.
  void Configure(RuntimeOptions* options) override;
  // From now on it ends when the attempt does; null: no more.
  void Attach(Runtime* runtime) override { runs_.Attach(runtime); }

  absl::Status Run(std::string_view program, RunContext context, int64_t steps,
                   int64_t reports) override;
  int64_t steps_done() const override { return runs_.steps_done(); }
  void AskStop() override { member_->AskStop(); }
  bool stopped() const override { return runs_.stopped(); }

  absl::StatusOr<std::string> Round(const std::string& name, std::string part,
                                    const Merge& merge) override;

  // A note of more than 1 MiB is not sent: nothing depends on notes.
  void Note(const std::string& name, const std::string& value) override {
    member_->Note(name, value);
  }
  void Post(const std::string& key, const std::string& value) override {
    member_->Post(key, value);
  }
  absl::StatusOr<std::string> Fetch(const std::string& key) override { return member_->Fetch(key); }
  bool MayWrite() const override { return member_->MayWrite(); }
  bool AwaitMayWrite() override { return member_->AwaitMayWrite(); }
  ClockOffset AwaitClockOffset() const override;
  int processes_on_host() const override { return member_->processes_on_host(); }
  int index_on_host() const override { return member_->index_on_host(); }
  absl::Status status() const override { return member_->status(); }
  absl::Status Fail(const absl::Status& status) override;
  absl::Status Leave() override;

 private:
  explicit Processes(ProcessesOptions options);
  absl::StatusOr<std::unique_ptr<Communicator>> MakeCommunicator(const Group& group,
                                                                 const ExchangeBounds& bounds);
  absl::StatusOr<CoreShare> ShareCoresOfHost();
  absl::StatusOr<std::string> ChooseTransports();
  absl::Status OpenNetwork(UcxOptions network);
  bool MaySpin() const;
  void End(const absl::Status& why);

  const ProcessesOptions options_;
  const int self_, count_;
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
