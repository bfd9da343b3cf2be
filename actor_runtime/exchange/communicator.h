// Communicator: what carries the exchanges of one group of devices, one after the other, for the
// members that are in this process. It has no thread and never blocks: a member enters, goes on
// with its other streams, and polls.
//
//   communicator->Enter(member, entry);
//   while (communicator->Poll(member, pool) == Communicator::kWaiting) ... other work, or park ...
//
// Contract, for every maker (communicator_conformance_test.cc):
//  1. Exchanges are numbered from the first one on, across steps and programs: the k-th that a
//     member enters is the k-th of all others. A member enters the next one when Poll has said
//     kOver of the last one to it.
//  2. A member's memory is touched only from its Enter until Poll says kOver or kFailed to it.
//  After
//     kOver its outputs hold the result and its inputs may be overwritten.
//  3. Nothing is over before all members have entered it.
//  4. Bits are those of ExchangeWork, whoever carries what.
//  5. After Abort nothing is over any more: Poll says kFailed to every member, to those that enter
//     later, too, as soon as nobody touches its memory.
//  6. Whenever HasNews of a member turns true, `wake` is called for it after that; but not for what
//     the member finds in the next call of its own. Both are sequentially consistent.
//     Where devices run by themselves, over means given: the member's stream has the exchange, and
//     what is given to it next comes after it.
//  7. Nothing is allocated after the maker has returned, but for the status of an abort.
//
// It holds no pointer into another process. The simulator is no maker: it moves no bytes and needs
// an end in virtual time, which Poll does not tell.
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

// What a member enters an exchange with: one address a tensor; fewer where it has none.
struct ExchangeEntry {
  const ExchangeWork* work = nullptr;  // the same for all members of a process
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  bool accumulate = false;              // adds to the outputs instead of overwriting them
  std::span<std::byte> workspace = {};  // for what comes of other processes (exchange_window.h)
  DeviceStream* stream = nullptr;       // of a device that runs by itself: what carries it there
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  // `wake`: must not block, and calls nothing of the communicator. Before any member enters.
  virtual void SetWake(std::function<void(int member)> wake) = 0;

  // The member's own thread.
  virtual void Enter(int member, const ExchangeEntry& entry) = 0;
  enum Progress {
    kWaiting,  // for other members
    kWorked,   // something is done
    kOver,     // for this member
    kFailed,   // aborted: see status()
  };
  // The member's own thread, after Enter and until kOver or kFailed. `pool`: of the member's
  // device; null: the calling thread alone.
  virtual Progress Poll(int member, ThreadPool* pool) = 0;
  // Whether Poll would do more than wait.
  virtual bool HasNews(int member) const = 0;

  // Any thread. Whether the member has entered the exchange that another, `than`, has entered.
  virtual bool HasEntered(int member, int than) const = 0;
  // Any thread. The first one counts.
  virtual void Abort(const absl::Status& status) = 0;
  virtual absl::Status status() const = 0;  // of the abort; OK before it
};

}  // namespace oneflow
