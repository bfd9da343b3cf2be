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
// It holds no pointer into another process. The simulator does not implement it: the simulator
// moves no bytes and needs an end in virtual time, which Poll does not give.
#pragma once

#include <cstddef>
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
