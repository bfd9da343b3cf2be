// Runtime: runs the programs of a plan on the devices of this process. One worker thread a device
// drives the device's streams, and one more drives the host streams of all devices. Copies of CPU
// devices to and from the host's memory, and what the host computes for a device, have a thread for
// each stream (assignment.h). There is no scheduler.
//
//   ASSIGN_OR_RETURN(auto runtime, Runtime::Create(plan, {.threads = 2}));
//   RETURN_IF_ERROR(runtime->Run("init", context, 1));
//   RETURN_IF_ERROR(runtime->Run("train", context, 100));
//
// Guarantees: the plan is proved before anything starts. Persistent registers keep their values
// between runs. A run ends drained, with every slot returned, or with the Status of the first
// kernel that failed. Then all workers are at rest and another Run may follow; registers keep the
// contents that the failed run left. If a device is lost, every further Run fails and says so.
// Between the first and the last step workers and actors allocate nothing. It is not thread-safe,
// except for Cancel, Report and Firings. It does not read checkpoints or data: RunContext does.
//
// Next: actor_runtime/actor/actor_state.h, which decides when an actor fires.
#pragma once

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
  // Kernel threads in total: each device's kernels get threads / devices of them, at least 1, at
  // most the plan's kernel_threads. What the host computes for a device has as many besides.
  // Results do not depend on it.
  int threads = 1;
  RankRange ranks;  // the devices of this process; empty: all
  // Those of all processes of the run on this host, which share its memory; empty: `ranks`.
  RankRange ranks_of_host;
  // Gets a warning where the plan's memory is not free at this time. May be empty.
  std::function<void(const std::string& warning)> notice;
  // Makes communicators for groups with members in other processes. It makes new ones after an
  // interrupted run; all processes must run the same programs and steps. null: plans with such
  // groups are refused.
  CommunicatorMaker make_communicator;
  // A barrier: returns when all processes have called it equally often. Processes meet when each
  // has made its communicators, before any device enters one, and after a stopped run, before
  // exchanges that streams have entered ahead are dropped. null: there are no other processes.
  std::function<absl::Status()> meet;
  Isa isa = BestIsa();  // instruction set of the kernels; the processor has it
  // Copies between a CPU device's memory and the host's take at least as long as over this link.
  HostLinkSpeed host_link;
  // Makes the kernels; with a backend, only those that the host's processors run. null: MakeKernel
  // of actor_runtime/kernel.
  KernelFactory make_kernel;
  // Called at load with each kernel that this process makes, if make_kernel is null and devices are
  // CPUs. null: not called.
  std::function<void(const KernelSetup& setup)> on_kernel;
  const DeviceBackend* backend = nullptr;  // of asynchronous devices; null: the devices are CPUs
  // For asynchronous devices. A rank has one launch at a time on its device, so that an error is
  // reported for the actor that made it. Another rank that shares the device may report it first.
  bool synchronous = false;
  bool prove = true;  // VerifyPlan at load
  // If true, and if there are cores for all workers, a worker without work looks for messages for
  // some microseconds before it sleeps. If false, it sleeps at once.
  bool spin = true;
  // null: each worker has a thread. Else the thread that calls Run drives all workers: this
  // function draws the next of that many workers. Then a run is a function of the draws, and a
  // deadlock ends it as INTERNAL with the actors that wait for each other.
  std::function<int(int workers)> draw_worker;
  // null: a worker that is drawn looks at its mail and at all its streams. Else this draws the one
  // stream, or message, that it looks at; the invariants of actor_state are checked after it.
  std::function<int(int things)> draw_thing;
  bool trace = false;
  int64_t trace_events_per_stream = 1 << 16;
};

struct RunOptions {
  // Called on the thread that called Run, after each finished step, with 0, 1, ... in turn.
  std::function<void(int64_t step)> on_step;
  // Ends the run early, with OK, after complete steps, perhaps none: those that the gate says.
  // After EndAt call Wake. Data that host streams have prepared for further steps is dropped. The
  // gate is open, or already held. null: the run takes all its steps.
  StepGate* gate = nullptr;
  // Called with the first failure, before members in other processes can notice it. It must not
  // block, and calls nothing of the runtime. May be empty.
  std::function<void(const absl::Status& why)> on_failure;
};

// The time that ranks of this process have waited for exchanges with others: from entering an
// exchange until it is over, including the work they did for it. Asynchronous devices are not
// counted.
struct RankWaits {
  struct Wait {
    int rank = 0;
    std::string group;  // "gradients, ranks 0 and 1": its stream and its devices
    int64_t nanoseconds = 0;
  };
  std::string program;     // that runs; empty: none does
  uint64_t run = 0;        // a number of that run
  int64_t steps = 0;       // of the run, that are done
  std::vector<Wait> wait;  // since its begin; in one order throughout a run
};

class Runtime {
 public:
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(const proto::Plan& plan,
                                                         const RuntimeOptions& options = {});
  ~Runtime();

  // Runs `steps` steps of a program; `context` must outlive the call.
  absl::Status Run(std::string_view program, const RunContext& context, int64_t steps,
                   const RunOptions& options = {});
  // Steps that the last Run has finished. Call it between runs.
  int64_t steps_done() const;
  // Ends the Run in progress with CANCELLED, soon. Any thread may call; it has no effect if no run
  // is in progress.
  void Cancel();

  // Like Cancel, with a status that is not OK.
  void End(const absl::Status& why);
  // Makes workers that wait look at RunOptions::gate once more. Any thread may call.
  void Wake();

  // The current state of each worker in the run in progress; empty if there is none. Any thread may
  // call, but one at a time. It takes up to a quarter of a second if a worker is inside a kernel
  // for so long.
  std::vector<WorkerReport> Report() const;
  // Firings begun in the run in progress, by worker, in the order of Report; empty if there is
  // none. Any thread may call; cheap.
  std::vector<int64_t> Firings() const;

  // Any thread may call; cheap, but it allocates.
  RankWaits Waits() const;

  // The time, in nanoseconds by rank of this process, that the rank's worker has not waited,
  // neither for messages nor for its device, from the begin of the run in progress, or of the last
  // one, to `now`. It is for asynchronous devices whose workers have threads; else 0. Any thread
  // may call while a run is in progress; cheap.
  void WorkedUntil(std::chrono::steady_clock::time_point now, std::span<int64_t> nanoseconds) const;

  // Of a rank's device, and of the arena that it has in the host's memory.
  int64_t ArenaBytes(int rank) const;
  int64_t HostArenaBytes(int rank) const;
  int ranks() const;           // of this process
  int kernel_threads() const;  // of one device
  const proto::Plan& plan() const;
  // A slot of a persistent register at a rank of its stage. Call it between runs.
  std::span<std::byte> PersistentBytes(int rank, int register_id, int slot = 0) const;

  // The events of all runs so far; empty if options.trace was not set. Call it between runs.
  // TraceJson writes them as Chrome/Perfetto JSON.
  proto::ProcessTrace TraceEvents() const;
  std::string TraceJson() const;

 private:
  struct Impl;
  explicit Runtime(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace oneflow
