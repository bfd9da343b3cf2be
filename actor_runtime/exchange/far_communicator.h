// A communicator of a group with members in other processes: FarExchange behind a lock. Nobody
// holds the lock while a piece is summed or copied, so the transport's thread never waits for a
// worker. Workers sum; the transport serves pulls without asking them.
#pragma once

#include <functional>
#include <mutex>

#include "actor_runtime/exchange/far_exchange.h"

namespace oneflow {

class FarCommunicator final : public Communicator {
 public:
  // `send` takes a message for another process. It must not block, and calls nothing of this class.
  // A piece's payload is read until Sent.
  FarCommunicator(Group group, const ExchangeBounds& bounds,
                  std::function<void(const FarAction&)> send)
      : exchange_(std::move(group), bounds), send_(std::move(send)) {}

  void SetWake(std::function<void(int member)> wake) override;
  void Enter(int member, const ExchangeEntry& entry) override;
  Progress Poll(int member, ThreadPool* pool) override;
  bool CanProgress(int member) const override;
  bool HasEntered(int member, int than) const override;
  void Abort(const absl::Status& status) override;
  absl::Status status() const override;

  // Called by the transport's thread: FarExchange's events of the same names. A refused message has
  // changed nothing.
  absl::Status Receive(const FarMessage& message);
  absl::StatusOr<std::span<std::byte>> Arriving(const FarMessage& message);
  void Arrived(const FarMessage& message);
  void Sent();

 private:
  template <typename Event>
  void Do(int caller, Event event);
  bool Work(int member);
  bool IsFailed() const { return !exchange_.status().ok() && exchange_.IsAtRest(); }

  mutable std::mutex mutex_;
  FarExchange exchange_;  // under mutex_, but for Run
  const std::function<void(const FarAction&)> send_;
  std::function<void(int)> wake_ = [](int) {};  // under mutex_
};

}  // namespace oneflow
