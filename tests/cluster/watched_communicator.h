// A communicator whose progress is reported, and whose members' memory is painted over (painter.h):
// before an exchange its workspace and what it will write, after it its workspace and what it gives
// back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actor_runtime/exchange/communicator.h"
#include "tests/cluster/painter.h"

namespace oneflow::cluster {

class WatchedCommunicator final : public Communicator {
 public:
  // `entered`: a member has. `progress`: so it has, or Poll did something. `wake`: as SetWake's,
  // and after it. `painter`: there once a run has begun; null: nothing but the workspace is
  // painted.
  WatchedCommunicator(std::unique_ptr<Communicator> of,
                      std::function<void(int member, const ExchangeEntry& entry)> entered,
                      std::function<void()> progress, std::function<void()> wake,
                      std::function<const Painter*()> painter)
      : of_(std::move(of)),
        entered_(std::move(entered)),
        progress_(std::move(progress)),
        wake_(std::move(wake)),
        painter_(std::move(painter)) {}

  void SetWake(std::function<void(int)> wake) override {
    of_->SetWake([this, wake = std::move(wake)](int member) {
      wake(member);
      wake_();
    });
  }
  void Enter(int member, const ExchangeEntry& entry) override {
    entered_(member, entry);
    progress_();
    std::vector<std::span<std::byte>>& paint = paint_after_[member];
    paint = {entry.workspace};
    Painter::Paint(entry.workspace);
    if (const Painter* painter = painter_()) {
      for (const std::byte* in : entry.in) paint.push_back(painter->Input(in));
      for (std::byte* out : entry.out) {
        if (!entry.accumulate) Painter::Paint(painter->Output(out));
      }
    }
    of_->Enter(member, entry);
  }
  Progress Poll(int member, ThreadPool* pool) override {
    const Progress progress = of_->Poll(member, pool);
    if (progress != kWaiting) progress_();
    if (progress == kOver) {
      for (const std::span<std::byte> bytes : paint_after_[member]) Painter::Paint(bytes);
    }
    return progress;
  }
  bool CanProgress(int member) const override { return of_->CanProgress(member); }
  bool HasEntered(int member, int than) const override { return of_->HasEntered(member, than); }
  void Abort(const absl::Status& status) override { of_->Abort(status); }
  absl::Status status() const override { return of_->status(); }

 private:
  const std::unique_ptr<Communicator> of_;
  const std::function<void(int, const ExchangeEntry&)> entered_;
  const std::function<void()> progress_, wake_;
  const std::function<const Painter*()> painter_;
  std::map<int, std::vector<std::span<std::byte>>> paint_after_;  // by member
};

}  // namespace oneflow::cluster
