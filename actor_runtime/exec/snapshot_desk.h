// SnapshotDesk: lets another thread read the state of a worker without touching what the worker
// owns: the thread asks, and the worker copies its state between two firings. Each worker has one.
//
//   asker:   desk.Ask(); ... wake the worker ...; auto snapshot = desk.Collect(deadline);
//   worker:  if (desk.asked()) desk.Answer([&](Snapshot* s) { ... });
//
// A worker that nobody asks pays for one read of an atomic. It allocates nothing: Prepare gives the
// snapshot its sizes.
//
// Invariants (under mutex_):
//  1. asked_ is true from Ask to the Answer or to the end of Collect, whichever is first.
//  2. answered_ says that snapshot_ is the answer to the last Ask.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "actor_runtime/actor/actor_state.h"

namespace oneflow {

// The positions of a worker's streams.
struct Snapshot {
  struct Stream {
    int32_t stream = 0;    // in the net
    int32_t index = 0;     // in StreamOrder::actors: which fires next
    bool over = false;     // it has done all its steps
    bool entered = false;  // the actor at `index` has entered its exchange
    int32_t given = -1;    // index of the oldest firing that the device has not finished; -1: none
    ActorStates states;
  };
  std::vector<Stream> streams;
};

class SnapshotDesk {
 public:
  // Sets the shape of snapshots of the next run. Call it at rest.
  void Prepare(Snapshot shape);

  // For the asker, one at a time:
  void Ask();
  // The worker's answer; nothing if the worker is inside a kernel and gives none before the
  // deadline.
  std::optional<Snapshot> Collect(std::chrono::steady_clock::time_point deadline);

  // For the worker. Sequentially consistent with Ask.
  bool asked() const { return asked_.load(std::memory_order_seq_cst); }
  void Answer(absl::FunctionRef<void(Snapshot*)> fill);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> asked_{false};
  bool answered_ = false;
  Snapshot snapshot_;
};

}  // namespace oneflow
