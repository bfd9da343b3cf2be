#include "actor_runtime/exec/snapshot_desk.h"

#include <utility>

namespace oneflow {

void SnapshotDesk::Prepare(Snapshot shape) {
  const std::lock_guard lock(mutex_);
  snapshot_ = std::move(shape);
}

void SnapshotDesk::Ask() {
  const std::lock_guard lock(mutex_);
  answered_ = false;
  asked_.store(true, std::memory_order_seq_cst);
}

std::optional<Snapshot> SnapshotDesk::Collect(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const bool answered = changed_.wait_until(lock, deadline, [&] { return answered_; });
  asked_.store(false);
  return answered ? std::optional(snapshot_) : std::nullopt;
}

void SnapshotDesk::Answer(absl::FunctionRef<void(Snapshot*)> fill) {
  {
    const std::lock_guard lock(mutex_);
    if (!asked_.load()) return;
    fill(&snapshot_);
    answered_ = true;
    asked_.store(false);
  }
  changed_.notify_one();
}

}  // namespace oneflow
