// LocalExchange: what carries an exchange whose members are threads of one process. Members read
// each other's entered registers in place. It has no thread of its own and never blocks: a member
// enters, goes on with its other streams, and looks again. Whoever looks first when all have
// entered takes pieces of the work, those of other members too: a member inside a long kernel holds
// nobody.
//
//   exchange.Enter(member, in, out, accumulate);
//   while (exchange.Poll(member, pool) != LocalExchange::kOver) ... other work, or park ...
//
// Guarantees: a member's memory is touched only from its Enter until Poll says kOver to it; then
// its outputs hold the result and its inputs may be overwritten. Bits are those of ExchangeWork.
// Nothing is allocated after the constructor.
//
// Invariants, with k = firings that a member has entered before the present one:
//  1. A member enters firing k + 1 only after Poll has said kOver of k to it; so all have entered k
//     before any enters k + 1, and entered_ counts to k * members before it counts on.
//  2. taken_ names the newest firing that all have entered, and the next piece of it that nobody
//  has
//     taken. It goes on to a firing by the last member to enter, after all addresses are written.
//  3. done_ == (pieces of all firings that are over) + (pieces of the present one that are done).
//  4. Nobody reads the addresses of a firing once its pieces are done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "actor_runtime/device/thread_pool.h"
#include "actor_runtime/exchange/exchange_work.h"

namespace oneflow {

class LocalExchange {
 public:
  // `wake`: called when there is something new for a member: pieces to take, or it is over. It must
  // not block. Whoever enters looks at once: a single piece is the last one's to take.
  LocalExchange(int members, ExchangeWork work);
  void SetWake(std::function<void(int member)> wake) { wake_ = std::move(wake); }

  const ExchangeWork& work() const { return work_; }
  int members() const { return static_cast<int>(members_); }

  // The member's own thread. `in` and `out`: addresses, one a tensor; fewer where it has none.
  void Enter(int member, std::span<const std::byte* const> in, std::span<std::byte* const> out,
             bool accumulate);
  enum Progress {
    kWaiting,  // for members that have not entered, or for pieces that others have taken
    kWorked,   // some pieces are done
    kOver,     // for this member, whose inputs and outputs are its own again
  };
  // The member's own thread, after Enter and until it was over. `pool`: of the member's device.
  Progress Poll(int member, ThreadPool* pool);
  // Whether Poll would do more than wait. Sequentially consistent with wake.
  bool HasNews(int member) const;

  // Any thread. Whether the member has entered a firing that another, `than`, has entered.
  bool HasEntered(int member, int than) const {
    return seats_[member].entered.load(std::memory_order_relaxed) >=
           seats_[than].entered.load(std::memory_order_relaxed);
  }
  // All threads at rest: as at first.
  void Reset();

 private:
  struct alignas(64) Seat {
    std::atomic<int64_t> entered{0};  // firings; written by the member
  };
  bool IsOver(int64_t firing) const;
  bool TakePiece(uint64_t firing, int* piece);
  void Work(uint64_t firing, int member);
  void WakeOthers(int member);

  const int64_t members_;
  const ExchangeWork work_;
  std::function<void(int)> wake_ = [](int) {};
  ExchangeEntries entries_;
  std::unique_ptr<Seat[]> seats_;
  alignas(64) std::atomic<int64_t> entered_{0};
  alignas(64) std::atomic<uint64_t> taken_{
      0};  // (firings that all have entered) << 32 | pieces taken
  alignas(64) std::atomic<int64_t> done_{0};
};

}  // namespace oneflow
