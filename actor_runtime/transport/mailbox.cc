#include "actor_runtime/transport/mailbox.h"

#include <algorithm>
#include <bit>

#include <glog/logging.h>

namespace oneflow {

Mailbox::Mailbox(int64_t capacity)
    : mask_(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(capacity, 2))) - 1),
      cells_(new Cell[mask_ + 1]) {
  for (uint64_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
}

void Mailbox::Push(const Message& message) {
  const uint64_t position = tail_.fetch_add(1, std::memory_order_relaxed);
  Cell& cell = cells_[position & mask_];
  // The owner freed this cell before it gave the credit for this message; only that store may not
  // be visible here yet.
  for (int spins = 0; cell.turn.load(std::memory_order_acquire) != position; ++spins) {
    CHECK(spins < 1'000'000) << "a mailbox of " << mask_ + 1 << " messages overflows";
  }
  cell.message = message;
  cell.turn.store(position + 1, std::memory_order_seq_cst);
  WakeIfParked();
}

void Mailbox::Wake() {
  ticket_.fetch_add(1, std::memory_order_seq_cst);
  ticket_.notify_one();
}

uint32_t Mailbox::PrepareToPark() {
  const uint32_t ticket = ticket_.load(std::memory_order_seq_cst);
  parked_.store(true, std::memory_order_seq_cst);
  return ticket;
}

void Mailbox::Park(uint32_t ticket) {
  ticket_.wait(ticket, std::memory_order_seq_cst);
  StayAwake();
}

void Mailbox::StayAwake() { parked_.store(false, std::memory_order_relaxed); }

}  // namespace oneflow
