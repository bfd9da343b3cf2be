// Runtime: runs the programs of a plan on the devices of this process. A worker thread a device
// drives the device's streams, one more drives the host streams of all of them; nobody schedules.
//
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, {.threads = 2}));
//   RETURN_IF_ERROR(runtime->Run("init", context, 1));
//   RETURN_IF_ERROR(runtime->Run("train", context, 100));
//
// Guarantees: the plan is proved before anything starts. Persistent registers keep their values
// between runs. A run ends drained, every slot returned, or with the Status of the first kernel
// that failed; then all workers are at rest and another Run may follow (the failed one's registers
// hold what they held), unless a device is lost: then every further Run says so. Between the first
// and the last step workers and actors allocate nothing. It is not thread-safe, but for Cancel,
// Report and Firings. It does not read checkpoints or data: RunContext does.
//
// Next: actor_runtime/actor/actor_state.h, which decides when an actor fires.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "actor_runtime/exec/bound_actor.h"
#include "actor_runtime/exec/loaded_plan.h"
#include "actor_runtime/exec/step_gate.h"
#include "actor_runtime/exec/worker_report.h"
#include "actor_runtime/kernel/run_context.h"
#include "proto/plan.pb.h"
#include "proto/trace.pb.h"

namespace oneflow {

struct RuntimeOptions {
  // Kernel threads in all: each device's kernels get threads / devices of them, at least 1, at most
  // the plan's kernel_threads. Results do not depend on it.
  int threads = 1;
  RankRange ranks;  // the devices of this process; empty: all
  // For groups with members in other processes. A run that is cut short makes new ones for the
  // next; all processes must run the same programs and steps. null: plans with such groups are
  // refused.
  CommunicatorMaker make_communicator;
  // Returns when all processes have called it as often. They meet when each has made its
  // communicators, before any device enters one, and after a run that was stopped, before what its
  // streams have entered ahead is dropped. null: there are no others.
  std::function<absl::Status()> meet;
  Isa isa = BestIsa();        // what kernels compute with; one that the processor has
  KernelFactory make_kernel;  // null: MakeKernel of actor_runtime/kernel; of the host's actors
                              // alone where there is a backend
  // Called at load with each kernel that this process makes, where make_kernel is null and devices
  // are CPUs; null: nobody looks.
  std::function<void(const KernelSetup& setup)> on_kernel;
  const DeviceBackend* backend = nullptr;  // of devices that run by themselves; null: they are CPUs
  // A rank has one launch at a time on its device, so that an error is told of the actor that made
  // it; another rank that shares the device may tell it first. Of devices that run by themselves.
  bool synchronous = false;
  bool prove = true;  // VerifyPlan at load
  // Workers without work look for messages for some microseconds before they sleep, if there are
  // cores for all of them. false: they sleep at once.
  bool spin = true;
  // null: each worker has a thread. Else the thread that calls Run drives them all: this draws
  // which goes on, of so many. Then a run is a function of what is drawn, and one in which nobody
  // can go on ends as INTERNAL, with who waits for whom.
  std::function<int(int workers)> draw_worker;
  bool trace = false;
  int64_t trace_events_per_stream = 1 << 16;
};

struct RunOptions {
  // Called on the thread that called Run, after each finished step, with 0, 1, ... in turn.
  std::function<void(int64_t step)> on_step;
  // Once it is true, no device begins a step that none has begun yet: the run ends well, with whole
  // steps, perhaps none. A signal handler may set it. What host streams have prepared of further
  // steps is dropped. null: the run takes all its steps.
  const std::atomic<bool>* stop = nullptr;
  // Ends the run early, too, where processes agree on the step; after EndAt call Wake. It is open,
  // or held already. null: none.
  StepGate* gate = nullptr;
};

// For how long ranks of this process have waited for exchanges with others: from entering one until
// it is over, with what they did of it themselves. Devices that run by themselves are not counted.
struct RankWaits {
  struct Wait {
    int rank = 0;
    std::string group;  // "gradients, ranks 0 and 1": its stream and its devices
    int64_t nanoseconds = 0;
  };
  std::string program;     // that runs; empty: none does
  uint64_t run = 0;        // a number of that run
  int64_t steps = 0;       // of it that are done
  std::vector<Wait> wait;  // since its begin; in one order throughout a run
};

class Runtime {
 public:
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(const proto::Plan& plan,
                                                         const RuntimeOptions& options = {});
  ~Runtime();

  // `steps` steps of a program; `context` must outlive the call.
  absl::Status Run(std::string_view program, const RunContext& context, int64_t steps,
                   const RunOptions& options = {});
  // Steps that the last Run has finished; between runs.
  int64_t steps_done() const;
  // Ends the Run in progress with CANCELLED, soon. Any thread; nothing happens when none is in
  // progress.
  void Cancel();

  // The same with a status that is not OK.
  void End(const absl::Status& why);
  // Workers that wait look at RunOptions::gate again. Any thread.
  void Wake();

  // What each worker is at in the run in progress; none when there is none. Any thread, but one at
  // a time. It takes up to a quarter of a second, when a worker is inside a kernel for so long.
  std::vector<WorkerReport> Report() const;
  // Firings begun in the run in progress, by worker, as Report lists them; none when there is none.
  // Any thread; cheap.
  std::vector<int64_t> Firings() const;

  // Any thread; cheap, but it allocates.
  RankWaits Waits() const;

  // For how long the worker of each rank of this process has not waited, neither for messages nor
  // for its device, from the begin of the run in progress, or of the last one, to `now`:
  // nanoseconds, by rank. Of devices that run by themselves, with workers that have threads; else
  // 0. Any thread while a run is in progress; cheap.
  void WorkedUntil(std::chrono::steady_clock::time_point now, std::span<int64_t> nanoseconds) const;

  int64_t ArenaBytes(int rank) const;
  int ranks() const;           // of this process
  int kernel_threads() const;  // of one device
  const proto::Plan& plan() const;
  // A slot of a persistent register at a rank of its stage; between runs.
  std::span<std::byte> PersistentBytes(int rank, int register_id, int slot = 0) const;

  // The events of all runs so far; between runs. Empty if options.trace was not set. TraceJson: as
  // Chrome/Perfetto JSON.
  proto::ProcessTrace TraceEvents() const;
  std::string TraceJson() const;

 private:
  struct Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
