// Communicator: carries the exchanges of one group of devices, one after the other, for the members
// that are in this process. It has no thread and never blocks: a member enters, goes on with its
// other streams, and polls.
//
//   communicator->Enter(member, entry);
//   while (communicator->Poll(member, pool) == Communicator::kWaiting) ... other work, or park ...
//
// Contract of every implementation (communicator_suite.h tests it):
//  1. Exchanges are numbered from the first one on, across steps and programs: the k-th that a
//     member enters is the k-th of all others. A member enters the next exchange after Poll has
//     returned kOver for the last one.
//  2. A member's memory is touched only from its Enter until Poll returns kOver or kFailed to it.
//     After kOver its outputs hold the result and its inputs may be overwritten.
//  3. No exchange is over before all members have entered it.
//  4. The bits are those of ExchangeWork, for every implementation.
//  5. After Abort no exchange ends any more: Poll returns kFailed to every member, also to members
//     that enter later, as soon as nobody touches its memory.
//  6. Whenever CanProgress of a member turns true, `wake` is called for it after that, but not for
//     progress that the member sees in its own next call. Both are sequentially consistent. On an
//     asynchronous device kOver means given: the exchange is on the member's stream, and later
//     launches on that stream come after it.
//  7. Nothing is allocated after construction, except for the status of an abort.
//
// The trip of a gradient, of which every member holds a part of the sum, to the memory of another
// process (FarCommunicator over UcxNetwork):
//  1. A worker thread fires the actor of the sum and calls Enter with the addresses of the member's
//     gradient and of its result. FarExchange notes them under a lock. No byte of a tensor moves.
//  2. When the last member of this process has entered, its worker queues an `entered` message to
//     each other process. The network thread, one a process, sends it: 64 bytes, as all headers.
//  3. When a process has entered and has heard `entered` of all others, the thread that finds this
//     out requests packets for each member here: it queues `pull` messages. A packet is the part of
//     a piece (at most 65,536 elements) that one source holds. A member requests as many pieces at
//     once as its window holds, at most 16.
//  4. The network thread of the source's process receives the pull, and queues a `piece` message
//     with the address of the packet in the source's gradient. It asks no worker.
//  5. The same thread gives it to UCX, which reads the rows straight from the gradient; rows that
//     are short or very many it copies together first. Up to 4,096 bytes go with the header. Longer
//     packets wait at the source until step 6 has given their destination.
//  6. The network thread of the reader's process receives the header and calls Arriving, which
//     returns the destination: here the member's window, since there is a sum to make; the result
//     itself, where nothing is summed and the packet is contiguous there. UCX writes the bytes to
//     it, and the thread calls Arrived. At the source, the network thread calls Sent.
//  7. When a piece has its packets of all sources, the workers of the members here are woken. The
//     first takes the piece in Poll, and sums the parts in rank order, without a lock: those of
//     members here from their gradients, the others from the window. It writes the result once.
//  8. When a process has all packets that it wants, the thread that finds this out queues `done` to
//     each other process, which now knows that nobody there reads its gradients any more.
//  9. When the pieces here are done, all other processes have sent `done`, and all packets of ours
//     have been sent, Poll returns kOver. The worker ends the firing, so actors of this process may
//     overwrite the gradient and read the result.
// In one process there are only steps 1, 7 and 9, and every part is read from its gradient
// (LocalCommunicator). On GPUs, Enter and Poll give the exchange to the member's stream: there our
// kernels read the gradients that share a GPU (StreamCommunicator), or NCCL moves them.
//
// It holds no pointer into another process. The simulator does not implement it: the simulator
// moves no bytes and needs an end in virtual time, which Poll does not give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "actor_runtime/device/device.h"
#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/exchange/exchange_work.h"

namespace oneflow {

// The registers with which a member enters an exchange: one address a tensor; none for a tensor
// that it does not have.
struct ExchangeEntry {
  const ExchangeWork* work = nullptr;  // the same for all members of a process
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  bool accumulate = false;              // adds to the outputs instead of overwriting them
  std::span<std::byte> workspace = {};  // for what comes of other processes (exchange_window.h)
  DeviceStream* stream = nullptr;  // of an asynchronous device: the stream that carries it there
};

// What a communicator must know of its exchanges before the first of them.
struct ExchangeBounds {
  int tensors = 0;           // the most that one has
  uint64_t first = 0;        // number of the first, the same in all processes
  PacketShape packets = {};  // that this process sends
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  // Sets the function that wakes a member. It must not block, and calls nothing of the
  // communicator. Requires that no member has entered.
  virtual void SetWake(std::function<void(int member)> wake) = 0;

  // Called by the member's own thread.
  virtual void Enter(int member, const ExchangeEntry& entry) = 0;
  enum Progress {
    kWaiting,  // for other members
    kWorked,   // something is done
    kOver,     // for this member
    kFailed,   // aborted: see status()
  };
  // Called by the member's own thread, after Enter and until kOver or kFailed. `pool` is that of
  // the member's device; null means the calling thread alone.
  virtual Progress Poll(int member, ThreadPool* pool) = 0;
  // True if Poll would do more than wait.
  virtual bool CanProgress(int member) const = 0;

  // True if the member has entered the exchange that another, `than`, has entered. Any thread may
  // call.
  virtual bool HasEntered(int member, int than) const = 0;
  // Any thread may call. The first status counts.
  virtual void Abort(const absl::Status& status) = 0;
  virtual absl::Status status() const = 0;  // the status of the abort; OK before it
};

}  // namespace oneflow
