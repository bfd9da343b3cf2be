#include "actor_runtime/exchange/group_for_test.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <random>
#include <utility>

#include <glog/logging.h>

#include "actor_runtime/exchange/local_communicator.h"
#include "oneflow_core/plan/exchange_window.h"

namespace oneflow {
namespace {

size_t MostTensors(const std::vector<ExchangeCase>& cases) {
  size_t tensors = 0;
  for (const ExchangeCase& c : cases) tensors = std::max(tensors, c.tensors.size());
  return tensors;
}

class LocalGroup final : public GroupForTest {
 public:
  explicit LocalGroup(const std::vector<ExchangeCase>& cases)
      : communicator_(
            MakeLocalCommunicator(cases[0].members(), static_cast<int>(MostTensors(cases)))) {
    for (const ExchangeCase& c : cases) {
      absl::StatusOr<ExchangeWork> work = ExchangeWork::Make(MakeSetups(c));
      CHECK(work.ok()) << Describe(c) << ": " << work.status();
      works_.push_back(*std::move(work));
    }
  }
  Communicator& FindCommunicator(int) override { return *communicator_; }
  bool Together(int, int) const override { return true; }
  const ExchangeWork* FindWork(size_t exchange, int) override { return &works_[exchange]; }
  std::span<std::byte> FindWorkspace(int) override { return {}; }
  void SetWake(std::function<void(int)> wake) override { communicator_->SetWake(std::move(wake)); }
  size_t UnderWay() override { return 0; }
  void Deliver(uint64_t) override {}
  absl::Status DeliverDamaged(uint64_t) override { return absl::UnavailableError(""); }
  bool Touches(int) override { return false; }

 private:
  std::unique_ptr<Communicator> communicator_;
  std::vector<ExchangeWork> works_;
};

// A message on its way to a receiver, or a completion on its way back to the sender.
struct Envelope {
  enum Kind { kMessage, kArrived, kSent } kind = kMessage;
  FarAction action = {};
};

class ApartGroup final : public GroupForTest {
 public:
  ApartGroup(const std::vector<ExchangeCase>& cases, const std::vector<int>& process, uint64_t seed)
      : process_(process), workspaces_(process.size()) {
    std::mt19937_64 random(seed);
    const int64_t mosts[] = {1 << 20, 1000, 61};
    const int64_t most = mosts[random() % 3], windows = 1 + random() % 3;
    const int processes = *std::max_element(process.begin(), process.end()) + 1;
    under_way_.reserve(100'000);
    for (int p = 0; p < processes; ++p) {
      std::vector<char> near;
      for (const int home : process) near.push_back(home == p ? 1 : 0);
      works_.emplace_back();
      for (const ExchangeCase& c : cases) {
        works_[p].push_back(PlanWork(c, near, most).work);
        for (int m = 0; m < std::ssize(process); ++m) {
          if (near[m] == 0) continue;
          const int64_t bytes = windows * works_[p].back().WindowBytes(m, c.accumulate);
          workspaces_[m].resize(std::max<size_t>(workspaces_[m].size(), bytes));
        }
      }
      const ExchangeBounds bounds{static_cast<int>(MostTensors(cases)), 1000};
      communicators_.push_back(std::make_unique<FarCommunicator>(
          MakeGroup(7, process, p), bounds, [this](const FarAction& a) {
            const std::lock_guard lock(mutex_);
            under_way_.push_back({Envelope::kMessage, a});
          }));
    }
  }
  Communicator& FindCommunicator(int member) override { return *communicators_[process_[member]]; }
  bool Together(int member, int other) const override {
    return process_[member] == process_[other];
  }
  const ExchangeWork* FindWork(size_t exchange, int member) override {
    return &works_[process_[member]][exchange];
  }
  std::span<std::byte> FindWorkspace(int member) override { return workspaces_[member]; }
  void SetWake(std::function<void(int)> wake) override {
    for (const auto& communicator : communicators_) communicator->SetWake(wake);
  }

  size_t UnderWay() override {
    const std::lock_guard lock(mutex_);
    return under_way_.size();
  }

  absl::Status DeliverDamaged(uint64_t random) override {
    const auto below = [&random](uint64_t n) { return std::exchange(random, random / n) % n; };
    if (under_way_.empty()) return absl::UnavailableError("nothing is under way");
    const Envelope& envelope = under_way_[below(under_way_.size())];
    FarMessage message = envelope.action.message;
    FarCommunicator& to = *communicators_[process_[message.to]];
    switch (below(6)) {
      case 0: message.communicator += 1; break;
      case 1: message.number += 1 + below(3); break;
      case 2: message.from = below(2) == 0 ? -1 : std::ssize(process_); break;
      case 3: message.to = message.from; break;
      case 4: message.length += message.kind == FarMessage::kPiece ? -1 : 1; break;
      case 5:
        if (message.kind == FarMessage::kPull || message.kind == FarMessage::kPiece) {
          message.packet = below(2) == 0 ? -1 : 1'000'000;
        } else {
          message.kind = FarMessage::kAbort + 1;
        }
    }
    return message.kind == FarMessage::kPiece ? to.Arriving(message).status() : to.Receive(message);
  }

  bool Touches(int member) override {
    const std::lock_guard lock(mutex_);
    return std::any_of(under_way_.begin(), under_way_.end(), [&](const Envelope& e) {
      const FarMessage& m = e.action.message;
      return m.kind == FarMessage::kPiece &&
             member == (e.kind == Envelope::kArrived ? m.to : m.from);
    });
  }

  void Deliver(uint64_t random) override {
    Envelope envelope;
    {
      const std::lock_guard lock(mutex_);
      std::swap(under_way_[random % under_way_.size()], under_way_.back());
      envelope = under_way_.back();
      under_way_.pop_back();
    }
    const FarMessage& message = envelope.action.message;
    FarCommunicator& to = *communicators_[process_[message.to]];
    switch (envelope.kind) {
      case Envelope::kArrived: return to.Arrived(message);
      case Envelope::kSent: return communicators_[process_[message.from]]->Sent();
      case Envelope::kMessage: break;
    }
    if (message.kind != FarMessage::kPiece) {
      const absl::Status status = to.Receive(message);
      CHECK(status.ok()) << status;
      return;
    }
    const absl::StatusOr<std::span<std::byte>> target = to.Arriving(message);
    CHECK(target.ok()) << target.status();
    size_t at = 0;
    if (!target->empty()) {
      ForPayload(envelope.action, [&](const std::byte* row, size_t bytes) {
        std::memcpy(target->data() + at, row, bytes);
        at += bytes;
      });
      CHECK_EQ(at, target->size());
    }
    const std::lock_guard lock(mutex_);
    if (!target->empty()) under_way_.push_back({Envelope::kArrived, envelope.action});
    under_way_.push_back({Envelope::kSent, envelope.action});
  }

 private:
  const std::vector<int> process_;                               // by member
  std::vector<std::vector<std::byte>> workspaces_;               // by member
  std::vector<std::vector<ExchangeWork>> works_;                 // by process, exchange
  std::vector<std::unique_ptr<FarCommunicator>> communicators_;  // by process
  std::mutex mutex_;
  std::vector<Envelope> under_way_;  // under mutex_
};

}  // namespace

Group MakeGroup(uint64_t id, const std::vector<int>& process, int self) {
  const auto each = static_cast<int32_t>(process.size());  // ranks of a process
  Group group{id, {}, {self * each, (self + 1) * each}};
  for (int32_t m = 0; m < each; ++m) group.ranks.push_back(process[m] * each + m);
  return group;
}

PlannedWork PlanWork(const ExchangeCase& c, const std::vector<char>& near, int64_t most) {
  PlannedWork planned;
  FarMembers far{near, {}, c.accumulate};
  for (const TensorCase& t : c.tensors) {
    int64_t copies = 1;
    for (size_t a = 0; a < t.from.size(); ++a) {
      if (t.from[a].partial()) copies *= t.mesh.axes[a].size;
    }
    const ExchangeWindow window =
        MakeWindow(MakeLayout(t.dims, t.from), MakeLayout(t.dims, t.to), t.mesh, copies,
                   static_cast<int64_t>(ElementBytes(t.dtype)), c.accumulate);
    far.most.push_back(std::min(window.piece, most));
    planned.workspace = std::max(planned.workspace, window.bytes);
  }
  absl::StatusOr<ExchangeWork> work = ExchangeWork::Make(MakeSetups(c), &far);
  CHECK(work.ok()) << Describe(c) << ": " << work.status();
  planned.work = *std::move(work);
  return planned;
}

std::unique_ptr<GroupForTest> MakeLocalGroup(const std::vector<ExchangeCase>& cases) {
  return std::make_unique<LocalGroup>(cases);
}

std::unique_ptr<GroupForTest> MakeFarGroup(const std::vector<ExchangeCase>& cases,
                                           const std::vector<int>& process, uint64_t seed) {
  return std::make_unique<ApartGroup>(cases, process, seed);
}

}  // namespace oneflow
