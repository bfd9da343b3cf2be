// Mailbox: a bounded ring of messages with many senders and one owner, the worker who drains it and
// may park on it.
//
//   Mailbox box(capacity);
//   box.Push(message);                       // any thread
//   while (box.Pop(&message)) ...            // owner
//   const uint32_t ticket = box.PrepareToPark();
//   box.HasMail() || stopped ? box.StayAwake() : box.Park(ticket);   // owner
//
// Requires: at most `capacity` messages are ever unread. Credits bound them (see
// MailboxCapacity in exec/net.h), so there is no full mailbox to wait for: an overflow is our own
// bug and a CHECK.
// Guarantees: messages of one sender arrive in the order it sent them; all that a
// sender wrote before Push is seen by the owner after Pop; a Push or Wake after PrepareToPark ends
// Park. It allocates in the constructor only.
//
// Invariants: with p = position of a cell in the endless sequence of messages,
//  1. cell.turn == p: free for the sender of message p; == p + 1: holds message p, for the owner.
//     So there are two cells at least: of one, "free for 1" would look like "holds 0".
//  2. tail_ - head_ <= capacity.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "oneflow_core/plan/message.h"

namespace oneflow {

class Mailbox {
 public:
  explicit Mailbox(int64_t capacity);  // >= 0

  // Any thread.
  void Push(const Message& message);
  void Wake();
  // Has an effect only if the owner is parked, or about to be. Requires that the data for the owner
  // was written before, and that the owner reads it, both sequentially consistent.
  void WakeIfParked() {
    if (parked_.load(std::memory_order_seq_cst)) Wake();
  }

  // Owner only.
  bool Pop(Message* message) {
    Cell& cell = cells_[head_ & mask_];
    if (cell.turn.load(std::memory_order_acquire) != head_ + 1) return false;
    *message = cell.message;
    cell.turn.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return true;
  }
  bool HasMail() const {
    return cells_[head_ & mask_].turn.load(std::memory_order_seq_cst) == head_ + 1;
  }
  uint32_t PrepareToPark();
  void Park(uint32_t ticket);
  void StayAwake();

 private:
  struct alignas(64) Cell {
    std::atomic<uint64_t> turn;
    Message message;
  };

  const uint64_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<uint64_t> tail_{0};  // senders
  alignas(64) uint64_t head_ = 0;              // owner
  // Written by the owner before it sleeps, read by every sender. Sequentially consistent with
  // `turn`: either the sender sees parked_, or the owner sees the message.
  alignas(64) std::atomic<bool> parked_{false};
  std::atomic<uint32_t> ticket_{0};  // raised by whoever wakes the owner
};

}  // namespace oneflow
