// A communicator that the network keeps, too: messages may still be on their way to it when the
// runtime has released it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "actor_runtime/exchange/far_communicator.h"

namespace oneflow {

class SharedCommunicator final : public Communicator {
 public:
  explicit SharedCommunicator(std::shared_ptr<FarCommunicator> of) : of_(std::move(of)) {}
  // The runtime's object that it wakes ends with this one.
  ~SharedCommunicator() override {
    of_->SetWake([](int) {});
  }
  void SetWake(std::function<void(int)> wake) override { of_->SetWake(std::move(wake)); }
  void Enter(int member, const ExchangeEntry& entry) override { of_->Enter(member, entry); }
  Progress Poll(int member, ThreadPool* pool) override { return of_->Poll(member, pool); }
  bool CanProgress(int member) const override { return of_->CanProgress(member); }
  bool HasEntered(int member, int than) const override { return of_->HasEntered(member, than); }
  void Abort(const absl::Status& status) override { of_->Abort(status); }
  absl::Status status() const override { return of_->status(); }

 private:
  std::shared_ptr<FarCommunicator> of_;
};

}  // namespace oneflow
