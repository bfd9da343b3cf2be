// A communicator whose progress is told, and whose members' memory is painted over where its bytes
// may be anything: the workspace before and after, so that what is read too late, or never written,
// is found in the numbers.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "actor_runtime/exchange/communicator.h"

namespace oneflow::cluster {

class WatchedCommunicator final : public Communicator {
 public:
  // `progress`: a member has entered, or Poll did something. `wake`: as SetWake, and before it.
  WatchedCommunicator(std::unique_ptr<Communicator> of, std::function<void()> progress,
                      std::function<void()> wake)
      : of_(std::move(of)), progress_(std::move(progress)), wake_(std::move(wake)) {}

  void SetWake(std::function<void(int)> wake) override {
    of_->SetWake([this, wake = std::move(wake)](int member) {
      wake(member);
      wake_();
    });
  }
  void Enter(int member, const ExchangeEntry& entry) override {
    progress_();
    Paint(entry.workspace);
    workspaces_[member] = entry.workspace;
    of_->Enter(member, entry);
  }
  Progress Poll(int member, ThreadPool* pool) override {
    const Progress progress = of_->Poll(member, pool);
    if (progress != kWaiting) progress_();
    if (progress == kOver) Paint(workspaces_[member]);
    return progress;
  }
  bool HasNews(int member) const override { return of_->HasNews(member); }
  bool HasEntered(int member, int than) const override { return of_->HasEntered(member, than); }
  void Abort(const absl::Status& status) override { of_->Abort(status); }
  absl::Status status() const override { return of_->status(); }

 private:
  // A pattern that is no number of any type.
  static void Paint(std::span<std::byte> bytes) {
    if (!bytes.empty()) std::memset(bytes.data(), 0xff, bytes.size());
  }

  const std::unique_ptr<Communicator> of_;
  const std::function<void()> progress_, wake_;
  std::map<int, std::span<std::byte>> workspaces_;  // by member
};

}  // namespace oneflow::cluster
