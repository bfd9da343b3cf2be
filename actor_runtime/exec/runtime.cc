#include "actor_runtime/exec/runtime.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/cores.h"
#include "actor_runtime/device/spin.h"
#include "actor_runtime/exec/assignment.h"
#include "actor_runtime/exec/run_board.h"
#include "actor_runtime/exec/trace.h"
#include "actor_runtime/exec/trace_json.h"
#include "actor_runtime/exec/worker.h"
#include "actor_runtime/transport/bus.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// After this many rounds in which no worker did anything, the run is deadlocked. A device may need
// some rounds to finish its launches.
constexpr int kIdleRounds = 1000;

// A worker that does not answer for this long is inside a kernel.
constexpr std::chrono::milliseconds kPatience{250};

// "ranks 0 and 4", "ranks 0 to 7", "8 ranks from 0 to 56".
std::string RanksText(const std::vector<int32_t>& ranks) {
  const auto n = static_cast<int32_t>(ranks.size());
  if (n == 2) return absl::StrCat("ranks ", ranks[0], " and ", ranks[1]);
  const bool all = ranks.back() - ranks.front() == n - 1;
  return absl::StrCat(all ? "" : absl::StrCat(n, " "), "ranks ", all ? "" : "from ", ranks.front(),
                      " to ", ranks.back());
}

// "rank 0", or "host": its streams are named besides.
std::string WorkersRank(const WorkerReport& report) {
  return report.rank == WorkerReport::kHost ? "host" : absl::StrCat("rank ", report.rank);
}

std::vector<int64_t> Capacities(const std::vector<LoadedProgram>& programs,
                                const WorkerTeam& team) {
  std::vector<int64_t> capacities(team.size(), 0);
  for (size_t p = 0; p < programs.size(); ++p) {
    for (int w = 0; w < team.size(); ++w) {
      std::vector<bool> own(programs[p].net.streams.size(), false);
      for (const int32_t stream : team.programs[p].streams_of[w]) own[stream] = true;
      capacities[w] = std::max(capacities[w], MailboxCapacity(programs[p].net, own));
    }
  }
  return capacities;
}

}  // namespace

// Members are in the order of construction; threads are last, so that they are joined first.
struct Runtime::Impl {
  std::unique_ptr<LoadedPlan> loaded;
  WorkerTeam team;
  std::vector<std::vector<ActorStates>> states;  // by program, stream; initial between runs
  std::optional<Trace> trace;
  std::optional<Bus> bus;
  // Changed only at rest; empty if the last ones cannot be used any more. Threads of the network
  // wake workers through the bus until these are gone.
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::optional<RunBoard> board;
  bool synchronous = false;
  bool run_failed = false;             // control thread: the last run failed
  std::function<absl::Status()> meet;  // null: there are no other processes
  uint32_t epoch = 0;                  // control thread
  int64_t steps_done = 0;              // control thread: in the last run
  std::mutex running_mutex;
  std::optional<ProgramRun> running;  // under running_mutex, so that Report sees a complete run
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
  std::function<int(int)> draw_worker, draw_thing;          // null: as in RuntimeOptions
  std::function<void(const absl::Status& why)> on_failure;  // of the run

  ~Impl() {
    if (board) board->Quit();
    for (std::thread& thread : threads) thread.join();
  }

  absl::Status Build(const RuntimeOptions& options) {
    team = AssignWorkers(loaded->programs(), loaded->ranks());
    for (const LoadedProgram& program : loaded->programs()) {
      std::vector<ActorStates>& of_program = states.emplace_back();
      for (const StreamOrder& stream : program.net.streams) {
        of_program.push_back(InitialStates(stream.table));
      }
    }
    if (options.trace) trace.emplace(options.trace_events_per_stream);
    const int n = team.size();
    bus.emplace(Capacities(loaded->programs(), team));
    board.emplace(n, [this](const absl::Status& failure) {
      if (on_failure) on_failure(failure);
      for (const auto& communicator : communicators) communicator->Abort(failure);
      bus->WakeAll();
    });
    RETURN_IF_ERROR(MakeCommunicators());
    // A worker that spins while others wait for a core slows them down. Messages of other processes
    // come by another thread, that of the network, which needs a core, too.
    const int least = options.make_communicator ? 2 : 1;
    const int busy = std::max(least, CountKernelThreads());
    const auto spin = options.spin && busy <= Cores() ? kSpin : std::chrono::nanoseconds{0};
    for (int w = 0; w < n; ++w) {
      Device* device = team.IsOfDevice(w) ? loaded->FindDevice(team.ranks[w]) : nullptr;
      workers.push_back(std::make_unique<Worker>(w, &*bus, &*board, spin, device));
      if (options.draw_worker) continue;
      threads.emplace_back([this, worker = workers.back().get()] {
        for (uint64_t seen = 0; board->WaitForRun(&seen); board->Rest()) worker->Drive();
      });
    }
    return absl::OkStatus();
  }

  // Those of all workers but the host's, which mostly sleeps.
  int CountKernelThreads() const {
    int threads = 0;
    for (int w = 0; w < team.size(); ++w) {
      if (team.ranks[w] == WorkerTeam::kHost) continue;
      threads += team.computes[w] ? loaded->kernel_threads() : 1;
    }
    return threads;
  }

  // Progress of a communicator for a member wakes the worker of that member's device.
  absl::Status MakeCommunicators() {
    if (!communicators.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(communicators, loaded->MakeCommunicators(epoch));
    for (size_t c = 0; c < communicators.size(); ++c) {
      communicators[c]->SetWake([this, &ranks = loaded->groups()[c].ranks](int member) {
        bus->mailbox(team.FindWorker(ranks[member])).WakeIfParked();
      });
    }
    return meet ? meet() : absl::OkStatus();
  }

  void Prepare(int program, const RunContext& context, int64_t steps) {
    const std::lock_guard lock(running_mutex);
    LoadedProgram& of_program = loaded->programs()[program];
    for (std::vector<BoundActor>& of_stream : of_program.actors) {
      for (BoundActor& actor : of_stream) actor.Begin(&context);
    }
    if (trace) trace->Begin(of_program.net, context.first_step, steps);
    const ProgramRun run{&of_program,
                         &states[program],
                         &team,
                         &team.programs[program],
                         loaded->pools(),
                         communicators,
                         ++epoch,
                         steps,
                         context.first_step,
                         loaded->plan().launch_queue(),
                         synchronous,
                         trace ? &*trace : nullptr};
    for (size_t w = 0; w < workers.size(); ++w) {
      workers[w]->Prepare(run, team.programs[program].streams_of[w]);
    }
    running = run;
  }

  // A device whose work has failed once is unusable for good.
  absl::Status CheckDevices() const {
    if (!run_failed) return absl::OkStatus();
    for (int rank = loaded->ranks().begin; rank < loaded->ranks().end; ++rank) {
      Device* device = loaded->FindDevice(rank);
      if (device == nullptr) continue;
      absl::Status usable = device->Attach();
      if (usable.ok()) usable = device->Synchronize();
      if (usable.ok()) continue;
      return absl::Status(
          usable.code(),
          absl::StrCat("the device of rank ", rank,
                       " was lost in an earlier run, start the program anew: ", usable.message()));
    }
    return absl::OkStatus();
  }

  // For traced launches: aligns the clocks of devices with the host's.
  absl::Status StartClocks() const {
    for (int rank = loaded->ranks().begin; trace && rank < loaded->ranks().end; ++rank) {
      Device* device = loaded->FindDevice(rank);
      if (device != nullptr) RETURN_IF_ERROR(device->StartClock());
    }
    return absl::OkStatus();
  }

  // Drives all workers on the control thread.
  void DriveAll() {
    const auto going = [](const auto& worker) { return worker->GoesOn(); };
    const auto n = static_cast<int>(workers.size());
    int things = n;
    for (const auto& worker : workers) things += draw_thing ? worker->things() - 1 : 0;
    for (int64_t idle = 0; std::any_of(workers.begin(), workers.end(), going);) {
      Worker& worker = *workers[draw_worker(n)];
      worker.Attach();
      const bool progress =
          worker.GoesOn() &&
          (draw_thing ? worker.StepOne(draw_thing(worker.things())) : worker.Step());
      idle = progress ? 0 : idle + 1;
      if (idle == int64_t{kIdleRounds} * things) board->Fail(absl::InternalError(WhoWaits()));
    }
    for (const auto& worker : workers) {
      worker->EndRun();
      board->Rest();
    }
  }

  std::string WhoWaits() {
    std::string text = "stuck";
    const auto step = [&] {
      for (const auto& worker : workers) {
        worker->Attach();
        worker->Step();
      }
    };
    for (const WorkerReport& report : AskWorkers(*running, workers, step, {})) {
      for (const std::string& stream : report.streams) {
        absl::StrAppend(&text, "; ", WorkersRank(report), ", ", stream);
      }
    }
    return text;
  }

  // Requires all workers at rest. Returns to the initial marking; a good run must have reached it,
  // unless it was stopped after `steps` steps and streams that follow had gone ahead.
  absl::Status Finish(int program, const absl::Status& failure, int64_t steps, bool stopped) {
    {
      const std::lock_guard lock(running_mutex);
      running.reset();
    }
    const ActorNet& net = loaded->programs()[program].net;
    absl::Status status = failure;
    const bool ahead = std::any_of(workers.begin(), workers.end(),
                                   [&](const auto& worker) { return worker->ahead(steps); });
    // Other processes may still finish the last step, and need the entries of members here.
    if (status.ok() && stopped && meet) status = meet();
    // A device would wait for members that never enter, and so would the end of a library's
    // communicator whose other parts are aborted.
    const bool interrupted =
        ahead || (stopped && meet && loaded->plan().device_kind() != proto::CPU);
    for (const auto& communicator : communicators) {
      if (interrupted) communicator->Abort(absl::CancelledError("the run was stopped"));
    }
    for (int rank = loaded->ranks().begin; rank < loaded->ranks().end; ++rank) {
      Device* device = loaded->FindDevice(rank);
      if (device == nullptr) continue;
      absl::Status at_rest = device->Attach();
      if (at_rest.ok()) at_rest = device->Synchronize();
      if (status.ok()) status = at_rest;
    }
    for (const std::unique_ptr<Worker>& worker : workers) {
      failure.ok() ? worker->DrainAfterRun() : worker->DropMail();
    }
    for (size_t a = 0; a < net.specs.size(); ++a) {
      const int32_t s = net.stream_of[a];
      if (status.ok() && !ahead &&
          !IsDrained(net.streams[s].table, states[program][s], net.index_in_stream[a])) {
        status = absl::InternalError(absl::StrCat("program ", net.program, " ended, but ",
                                                  net.ActorName(static_cast<int32_t>(a)),
                                                  " is not back at the initial marking"));
      }
    }
    for (size_t s = 0; s < net.streams.size(); ++s) {
      Reset(net.streams[s].table, &states[program][s]);
    }
    // Members may have entered exchanges that others never will. All processes know of each stop,
    // but not of streams that have gone ahead in other processes.
    if (!status.ok() || ahead || (stopped && meet)) communicators.clear();
    run_failed = !status.ok();
    return status;
  }
};

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() = default;

absl::StatusOr<std::unique_ptr<Runtime>> Runtime::Create(const proto::Plan& plan,
                                                         const RuntimeOptions& options) {
  if (options.threads < 1) {
    return InputError(absl::StrCat("--threads=", options.threads), "is not positive",
                      "use 1 or more");
  }
  LoadOptions load{.threads = options.threads,
                   .ranks = options.ranks,
                   .ranks_of_host = options.ranks_of_host,
                   .notice = options.notice,
                   .make_communicator = options.make_communicator,
                   .backend = options.backend,
                   .has_workers = !options.draw_worker,
                   .prove = options.prove,
                   .timed = options.trace,
                   .own_kernels = !options.make_kernel};
  load.make_kernel = [&options](KernelSetup s) {
    s.host_link = options.host_link;
    if (options.make_kernel) return options.make_kernel(s);
    s.isa = options.isa;
    if (options.on_kernel) options.on_kernel(s);
    return MakeKernelFor(options.isa, std::move(s));
  };
  auto impl = std::make_unique<Impl>();
  ASSIGN_OR_RETURN(impl->loaded, LoadedPlan::Load(plan, load));
  impl->draw_worker = options.draw_worker;
  impl->draw_thing = options.draw_thing;
  impl->synchronous = options.synchronous;
  impl->meet = options.meet;
  RETURN_IF_ERROR(impl->Build(options));
  return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

absl::Status Runtime::Run(std::string_view program, const RunContext& context, int64_t steps,
                          const RunOptions& options) {
  ASSIGN_OR_RETURN(const int index, impl_->loaded->FindProgram(program));
  if (steps < 0) return InputError(absl::StrCat("--steps=", steps), "is negative", "use 0 or more");
  RETURN_IF_ERROR(impl_->CheckDevices());
  RETURN_IF_ERROR(impl_->MakeCommunicators());
  RETURN_IF_ERROR(impl_->StartClocks());
  impl_->Prepare(index, context, steps);
  impl_->on_failure = options.on_failure;
  impl_->board->Start(options.gate);
  if (impl_->draw_worker) impl_->DriveAll();
  int64_t reported = 0, done = 0;
  for (bool at_rest = false; !at_rest;) {
    at_rest = impl_->board->AtRest();
    // Without a listener, only the end matters.
    done = impl_->board->WaitForSteps(options.on_step ? reported : steps);
    while (options.on_step && reported < done) options.on_step(reported++);
  }
  impl_->steps_done = done;
  return impl_->Finish(index, impl_->board->TakeFailure(), done, done < steps);
}

int64_t Runtime::steps_done() const { return impl_->steps_done; }

void Runtime::Cancel() { End(absl::CancelledError("the run was cancelled")); }
void Runtime::End(const absl::Status& why) { impl_->board->Fail(why); }
void Runtime::Wake() { impl_->bus->WakeAll(); }

std::vector<WorkerReport> Runtime::Report() const {
  const std::lock_guard lock(impl_->running_mutex);
  if (!impl_->running) return {};
  const ProgramRun& run = *impl_->running;
  return AskWorkers(
      run, impl_->workers, [this] { impl_->bus->WakeAll(); }, kPatience);
}

std::vector<int64_t> Runtime::Firings() const {
  const std::lock_guard lock(impl_->running_mutex);
  std::vector<int64_t> firings;
  if (!impl_->running) return firings;
  for (const std::unique_ptr<Worker>& worker : impl_->workers) firings.push_back(worker->firings());
  return firings;
}

RankWaits Runtime::Waits() const {
  const std::lock_guard lock(impl_->running_mutex);
  if (!impl_->running) return {};
  const ProgramRun& run = *impl_->running;
  const ActorNet& net = run.program->net;
  RankWaits waits{net.program, run.epoch, impl_->board->finished(), {}};
  for (size_t s = 0; s < net.streams.size(); ++s) {
    const StreamOrder& stream = net.streams[s];
    if (stream.host || impl_->loaded->FindDevice(stream.rank) != nullptr) continue;
    std::vector<char> seen(net.groups.size(), 0);
    for (const int32_t actor : stream.actors) {
      if (net.member_of[actor].exchange < 0) continue;
      const int32_t group = net.exchanges[net.member_of[actor].exchange].group;
      if (std::exchange(seen[group], 1) != 0) continue;
      const int32_t worker = run.assignment->worker_of[s];
      waits.wait.push_back({static_cast<int>(stream.rank),
                            absl::StrCat(stream.name, ", ", RanksText(net.groups[group].ranks)),
                            impl_->workers[worker]->waited(group)});
    }
  }
  return waits;
}

void Runtime::WorkedUntil(std::chrono::steady_clock::time_point now,
                          std::span<int64_t> nanoseconds) const {
  const int64_t ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
  for (size_t r = 0; r < nanoseconds.size(); ++r) {
    nanoseconds[r] = impl_->workers[r]->clock().Worked(ns);
  }
}

int64_t Runtime::ArenaBytes(int rank) const { return impl_->loaded->ArenaBytes(rank); }
int64_t Runtime::HostArenaBytes(int rank) const { return impl_->loaded->HostArenaBytes(rank); }
int Runtime::ranks() const { return impl_->loaded->ranks().size(); }
int Runtime::kernel_threads() const { return impl_->loaded->kernel_threads(); }
const proto::Plan& Runtime::plan() const { return impl_->loaded->plan(); }

std::span<std::byte> Runtime::PersistentBytes(int rank, int register_id, int slot) const {
  return impl_->loaded->PersistentBytes(rank, register_id, slot);
}

proto::ProcessTrace Runtime::TraceEvents() const {
  return impl_->trace ? impl_->trace->ToProto(plan()) : proto::ProcessTrace();
}

std::string Runtime::TraceJson() const {
  if (!impl_->trace) return "";
  const proto::ProcessTrace trace = TraceEvents();
  return oneflow::TraceJson({&trace, 1}, 1, MakeTraceFacts(plan()));
}

}  // namespace oneflow
