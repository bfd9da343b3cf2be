// Invariants, under mutex_:
//   1. Member m has entered entered_[m] exchanges; given_ of them were given to the streams of all:
//      given_ <= entered_[m] <= given_ + 1.
//   2. entries_ and streams_ belong to exchange given_, for the members that have entered it.
//   3. Once status_ is not OK nothing more is given to a stream.
#include "actor_runtime/exchange/stream_communicator.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

class StreamCommunicator final : public Communicator {
 public:
  StreamCommunicator(int members, int tensors)
      : members_(members),
        entries_(std::max(1, tensors), members),
        streams_(members, nullptr),
        works_(members, nullptr),
        entered_(members, 0) {}

  void SetWake(std::function<void(int)> wake) override { wake_ = std::move(wake); }

  void Enter(int member, const ExchangeEntry& entry) override {
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      for (size_t t = 0; t < entry.in.size(); ++t) entries_.in[t * members_ + member] = entry.in[t];
      for (size_t t = 0; t < entry.out.size(); ++t) {
        entries_.out[t * members_ + member] = entry.out[t];
      }
      entries_.accumulate[member] = entry.accumulate ? 1 : 0;
      streams_[member] = entry.stream;
      works_[member] = entry.work;
      ++entered_[member];
      if (status_.ok()) status_ = entry.stream->Mark();
      if (status_.ok() && AllHaveEntered()) {
        status_ = Give(member);
        if (status_.ok()) given_.store(entered_[member]);
        changed = true;
      }
      failed_.store(!status_.ok());
      changed |= !status_.ok();
    }
    if (changed) WakeOthers(member);
  }

  Progress Poll(int member, ThreadPool* /*pool*/) override {
    if (given_.load() == EnteredBy(member)) return kOver;
    return failed_.load() ? kFailed : kWaiting;
  }

  bool CanProgress(int member) const override {
    return failed_.load() || given_.load() == EnteredBy(member);
  }

  bool HasEntered(int member, int than) const override {
    const std::lock_guard lock(mutex_);
    if (entered_[member] != entered_[than]) return entered_[member] > entered_[than];
    return works_[member] == works_[than];
  }

  void Abort(const absl::Status& status) override {
    {
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) return;
      status_ = status;
      failed_.store(true);
    }
    WakeOthers(-1);
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  int64_t EnteredBy(int member) const {
    const std::lock_guard lock(mutex_);
    return entered_[member];
  }

  // In a plan that is not live members may enter different exchanges: they never meet.
  bool AllHaveEntered() const {
    for (int m = 0; m < members_; ++m) {
      if (entered_[m] != entered_[0] || works_[m] != works_[0]) return false;
    }
    return true;
  }

  // Gives the full exchange to the stream of `leader`: after all earlier and before all later
  // launches.
  absl::Status Give(int leader) {
    DeviceStream& stream = *streams_[leader];
    for (int m = 0; m < members_; ++m) {
      if (m != leader) RETURN_IF_ERROR(stream.WaitForMark(*streams_[m]));
    }
    RETURN_IF_ERROR(works_[leader]->Launch(entries_, stream.handle()));
    RETURN_IF_ERROR(stream.Mark());
    for (int m = 0; m < members_; ++m) {
      if (m != leader) RETURN_IF_ERROR(streams_[m]->WaitForMark(stream));
    }
    return absl::OkStatus();
  }

  void WakeOthers(int member) {
    for (int other = 0; other < members_; ++other) {
      if (other != member) wake_(other);
    }
  }

  const int members_;
  std::function<void(int)> wake_ = [](int) {};
  mutable std::mutex mutex_;
  ExchangeEntries entries_;
  std::vector<DeviceStream*> streams_;
  std::vector<const ExchangeWork*> works_;  // by member, of the exchange it entered last
  std::vector<int64_t> entered_;            // by member
  absl::Status status_;
  std::atomic<int64_t> given_{0};  // written under mutex_
  std::atomic<bool> failed_{false};
};

}  // namespace

std::unique_ptr<Communicator> MakeStreamCommunicator(int members, int tensors) {
  return std::make_unique<StreamCommunicator>(members, tensors);
}

}  // namespace oneflow
