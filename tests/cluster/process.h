// A simulated process of a training run: the train loop, the runtime with its arenas and kernels,
// the machines of the job, all as in programs, on a thread of control of the simulation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actor_runtime/exchange/far_exchange.h"
#include "actor_runtime/exec/runtime.h"
#include "proto/plan.pb.h"
#include "tests/cluster/control.h"
#include "tests/cluster/network.h"
#include "tests/cluster/painter.h"
#include "training/checkpoint/checkpoint.h"
#include "training/trainer/processes/process_group.h"
#include "training/trainer/processes/runs_in_step.h"
#include "training/trainer/trainer.h"

namespace oneflow::cluster {

// Counts of events, over all runs of a test.
struct Coverage {
  std::map<std::string, int> losses;  // by kind
  std::map<std::string, int> causes;  // of them: whose sentences were compared
  int attempts = 0, resumed = 0;
  int64_t foreign = 0;  // messages of older attempts, dropped
  int64_t painted = 0;  // inputs and outputs of exchanges
};

// The training, the same in every attempt.
struct Training {
  const proto::Plan& plan;
  const TokenSource& tokens;
  TrainerOptions options;  // without what differs by process
  int processes = 4;
  // After a stop that all have agreed upon the processes train on, with the same runtime.
  bool goes_on_in_place = false;
};

// The environment of a process. All outlive it.
struct Surroundings {
  Simulation& simulation;
  const Links& links;
  Network& network;
  ControlNetwork& control;
  const Training& training;
  Coverage* coverage;
  // Called by the process, on its thread of control.
  std::function<void(class Process&)> on_disk;    // before anything of a checkpoint is written
  std::function<void(class Process&)> may_write;  // its lease says that it may
  std::function<void(const std::string& folder)> on_commit;
  std::function<void(class Process&)> on_over;
};

class Process final : public ProcessGroup {
 public:
  // `disk`: its own name of the folder of all files, which is taken from it when it is killed.
  Process(const Surroundings& around, int index, int64_t attempt, int host, std::string disk);
  ~Process() override;

  void Start(JobTime delay);
  void Stop();
  void Continue();
  void Kill();
  // SIGTERM.
  void Signal();
  // The kernel that runs next fails.
  void FailNextKernel() { fail_next_kernel_ = true; }
  // Its computation takes `times` as long.
  void Slow(int64_t times) { slower_ = times; }
  // From now on there is no space left for what it writes.
  void FillDisk() { disk_is_full_ = true; }
  // True if it writes now, and there is none.
  bool MeetsFullDisk();

  int64_t attempt() const { return attempt_; }
  int host() const { return life_.host(); }
  bool is_stopped() const { return life_.stopped(); }
  JobTime went_on() const { return went_on_; }  // when it was last continued
  bool over() const { return over_; }
  bool killed() const { return killed_; }
  const absl::Status& outcome() const { return outcome_; }  // once it is over
  JobTime over_at() const { return over_at_; }
  // True if the two exchange anything.
  bool SpeaksTo(int process) const { return endpoint_ != nullptr && endpoint_->SpeaksTo(process); }
  bool joined() const { return control_ != nullptr && control_->joined(); }
  // Why it has failed by itself, once it has.
  const std::string& failure() const { return failure_; }
  // When a kernel was made to fail, and until when its workers have waited in vain for half a
  // second or longer. 0: never.
  JobTime failed_at() const { return failed_at_; }
  JobTime waited_until() const { return waited_until_; }
  std::string metrics() const { return disk_ + "-metrics"; }
  std::string Name() const;

  // ProcessGroup, for the trainer.
  int index() const override { return index_; }
  int count() const override { return around_.training.processes; }
  void Configure(RuntimeOptions* options) override;
  void Attach(Runtime* runtime) override;
  absl::Status Run(std::string_view program, RunContext context, int64_t steps,
                   int64_t reports) override;
  void AskStop() override { control_->AskStop(); }
  bool stopped() const override { return runs_->stopped(); }
  absl::StatusOr<std::string> Round(const std::string& name, std::string part,
                                    const Merge& merge) override;
  // The watchdog, which notes, is off.
  void Note(const std::string&, const std::string&) override {}
  bool MayWrite() const override { return !killed_; }
  bool AwaitMayWrite() override;
  int64_t steps_done() const override { return runs_->steps_done(); }

 private:
  std::unique_ptr<RunsInStep> MakeRuns();
  void Main();
  absl::Status Train();
  absl::Status Killed() const { return absl::AbortedError("killed"); }
  std::unique_ptr<Communicator> MakeCommunicator(const Group& group, const ExchangeBounds& bounds);
  absl::StatusOr<Kernel> MakeKernel(const KernelSetup& setup);
  int DrawWorker(int workers);
  void Changed();
  void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            const std::function<bool()>& is_true);
  void End(const absl::Status& why);
  void BeOver();

  const Surroundings& around_;
  const int index_;
  const int64_t attempt_;
  const std::string disk_;
  Life life_;
  ControlThread thread_;
  std::unique_ptr<RunsInStep> runs_;
  std::unique_ptr<ControlMember> control_;
  std::shared_ptr<Endpoint> endpoint_;
  Runtime* runtime_ = nullptr;
  std::optional<Painter> painter_;  // of the process's one device
  bool killed_ = false, over_ = false, signalled_ = false;
  absl::Status outcome_;
  JobTime went_on_ = 0;
  JobTime over_at_ = 0, failed_at_ = 0, waited_until_ = 0;
  bool fail_next_kernel_ = false, disk_is_full_ = false;
  std::string failure_;
  bool watches_ = false;  // the links of exchanges
  int64_t slower_ = 1;

  // The workers take turns.
  std::vector<int> turns_;  // what is left of a round
  int64_t progress_ = 0, progress_seen_ = 0;
  int idle_ = 0;
  bool woken_ = false;
};

}  // namespace oneflow::cluster
