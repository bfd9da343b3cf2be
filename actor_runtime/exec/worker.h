// Worker: one thread that fires the streams given to it (assignment.h), in their orders, until each
// has gone N times through its order. In a stopped run each goes fewer times, all equally often,
// except that a stream that follows may have gone ahead. It decides nothing: the next actor of a
// stream fires as soon as it may.
//
// Invariants:
//  1. A stream's states and position, and the slots its actors write, belong to one worker. Until
//     an exchange that it has entered is over, other members access the exchange's slots, too.
//  2. It reads its mailbox between any two firings, so no stream starves another of messages.
//  3. Nothing is allocated between Prepare and the end of Drive.
//  4. On an asynchronous device, a firing is issued when its actor may fire and its stream has
//     room, an exchange also only in its turn; it completes when the device says so. The worker
//     waits for neither.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/assignment.h"
#include "actor_runtime/exec/busy_clock.h"
#include "actor_runtime/exec/device_queues.h"
#include "actor_runtime/exec/loaded_plan.h"
#include "actor_runtime/exec/run_board.h"
#include "actor_runtime/exec/snapshot_desk.h"
#include "actor_runtime/exec/trace.h"
#include "actor_runtime/kernel/run_context.h"
#include "actor_runtime/transport/bus.h"

namespace oneflow {

// The state that all workers share in one run of a program; made by the control thread.
struct ProgramRun {
  LoadedProgram* program = nullptr;
  std::vector<ActorStates>* states = nullptr;  // by stream
  const WorkerTeam* team = nullptr;
  const Assignment* assignment = nullptr;              // of the program
  std::span<const std::unique_ptr<ThreadPool>> pools;  // by own rank
  std::span<const std::unique_ptr<Communicator>> communicators;
  uint32_t epoch = 0;
  int64_t steps = 0;
  int64_t first_step = 0;  // for messages
  int launch_queue = 1;
  bool synchronous = false;  // a device has one launch at a time
  Trace* trace = nullptr;
};

class Worker {
 public:
  // `spin`: how long it looks into an empty mailbox before it parks. `device`: an asynchronous
  // device that runs its streams; null: the worker runs them.
  Worker(int id, Bus* bus, RunBoard* board, std::chrono::nanoseconds spin, Device* device = nullptr)
      : id_(id),
        bus_(bus),
        board_(board),
        mailbox_(bus->mailbox(id)),
        spin_(spin),
        device_(device) {}

  // Control thread, at rest: takes the streams (indices in the net) for the next run.
  void Prepare(const ProgramRun& run, const std::vector<int32_t>& streams);
  // Counts messages that came after the last firing. Control thread, all at rest.
  void DrainAfterRun() { Drain(); }
  // Drops the messages of a cancelled run. Control thread, all at rest.
  void DropMail();
  // True if a stream that follows has begun a step beyond the `steps` steps of a stopped run.
  // Control thread, all at rest.
  bool ahead(int64_t steps) const;

  // The worker's thread: one run.
  void Drive();
  // The parts of Drive, for a thread that drives several workers. Attach is called before Step if
  // another thread has made the last step. Step looks once at everything, StepOne at one of
  // things(): at one message, or at one stream. They return true if anything was done. StepOne
  // checks the invariants of the actor_state that it changed.
  void Attach();
  bool Step();
  bool StepOne(int thing);
  int things() const { return static_cast<int>(positions_.size()) + 1; }
  bool GoesOn() const { return unfinished_ > 0 && !board_->cancelled(); }
  void EndRun() { over_.store(true); }

  // Any thread. firings: begun in this run; last_actor: the concrete actor of the last firing, -1
  // if there is none; over: the worker has finished this run.
  SnapshotDesk& desk() { return desk_; }
  int64_t firings() const { return firings_.load(std::memory_order_relaxed); }
  int32_t last_actor() const { return last_actor_.load(std::memory_order_relaxed); }
  // Requires a worker of a device that Drive drives.
  const BusyClock& clock() const { return clock_; }
  bool over() const { return over_.load(std::memory_order_relaxed); }
  // The time in nanoseconds that it has waited in this run until exchanges of a group were over, by
  // group of the net. Requires a worker of CPU streams, and that no run is being prepared.
  int64_t waited(size_t group) const { return waited_[group].load(std::memory_order_relaxed); }

 private:
  struct Exchange {
    Communicator* communicator = nullptr;
    const ExchangeWork* work = nullptr;
    int member = 0;
    int32_t group = 0;  // of the net
  };
  struct Position {
    const StreamOrder* order = nullptr;
    ActorStates* states = nullptr;
    BoundActor* actors = nullptr;  // by index in the stream
    TraceBuffer* trace = nullptr;
    ThreadPool* pool = nullptr;       // of the device; null: it enters no exchange
    std::vector<Exchange> exchanges;  // by index; without a communicator: no exchange
    FiringOrder::Cursor next = {};
    int64_t step = 0;                   // in which `next` is
    int64_t done = 0;                   // steps that are over
    bool begun = false;                 // the step
    int on_device = -1;                 // in queues_; -1: the worker runs it
    const Exchange* entered = nullptr;  // by the actor at `next`
    Launch launch = {};                 // of the exchange that has been entered
    int64_t begin = 0;                  // when
  };

  bool ObeysOthers();
  void CheckState(int32_t actor);
  void Drain();
  void Hand(const Message& message, int64_t stamp = 0);
  bool FireNext(Position* position);
  bool Enter(Position* position, int32_t index, const Launch& launch);
  bool Look(Position* position);
  void End(Position* position, int32_t index);
  bool FireOnDevice(Position* position);
  bool CompleteOldest(Position* position);
  void Given(Position* position, int32_t index);
  DeviceStream* FindStream(const Position& position) const;
  bool MayGive() const;
  bool HasTurn(const Position& position, int32_t index) const;
  bool HasWork() const;
  absl::Status RunTraced(const Position& position, int32_t index, const Launch& launch);
  void Send(const Position& position, int32_t index, int64_t stamp = 0);
  bool Begin(Position* position);
  void Advance(Position* position);
  void EndStep(Position* position);
  void EndAfter(int64_t steps);
  void TellDone();
  void Fail(const Position& position, int32_t index, const Launch& launch,
            const absl::Status& status);
  void FailOldest(const Position& position, const absl::Status& status);
  std::string Suspects() const;
  void Wait();
  void Idle();
  void Answer();

  const int id_;
  Bus* const bus_;
  RunBoard* const board_;
  Mailbox& mailbox_;
  const std::chrono::nanoseconds spin_;
  Device* const device_;

  ProgramRun run_;
  std::vector<Position> positions_;
  size_t unfinished_ = 0;   // streams
  int64_t steps_done_ = 0;  // by all streams
  std::vector<int32_t> sends_;
  std::optional<DeviceQueues> queues_;
  const IssueOrder* issue_ = nullptr;  // of the device
  FiringOrder::Cursor turn_ = {};      // in it

  // Written by the worker alone; read by other threads.
  alignas(64) std::atomic<int64_t> firings_{0};
  std::atomic<int32_t> last_actor_{-1};
  std::atomic<bool> over_{true};
  BusyClock clock_;
  std::vector<std::atomic<int64_t>> waited_;  // by group of the net
  SnapshotDesk desk_;
};

}  // namespace oneflow
