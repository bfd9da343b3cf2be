// Invariants, with k = exchanges that a member has entered before the present one:
//   1. All have entered k before any enters k + 1, so entered_ reaches k * members before it
//      continues.
//   2. taken_ names the newest exchange that all have entered, and the next piece of it that nobody
//      has taken. The last member to enter moves it to an exchange, after all entries are written.
//      Once it is closed it stays.
//   3. done_ == pieces of the exchange that taken_ names that are done.
//   4. Nobody reads the entries of an exchange once its pieces are done.
#include "actor_runtime/exchange/local_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace oneflow {
namespace {

constexpr int kPieceBits = 31;
constexpr uint64_t kPieces = (uint64_t{1} << kPieceBits) - 1;
constexpr uint64_t kClosed = uint64_t{1} << 63;

// The name of an exchange, counted from 1, in taken_: it may wrap.
constexpr uint64_t ExchangeName(uint64_t exchange) { return exchange & 0xffff'ffffu; }

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(int members, int tensors)
      : members_(members),
        entries_(std::max(1, tensors), members),
        states_(std::make_unique<MemberState[]>(members)) {}

  void SetWake(std::function<void(int)> wake) override { wake_ = std::move(wake); }

  void Enter(int member, const ExchangeEntry& entry) override {
    MemberState& state = states_[member];
    state.work.store(entry.work, std::memory_order_relaxed);
    for (size_t t = 0; t < entry.in.size(); ++t) entries_.in[t * members_ + member] = entry.in[t];
    for (size_t t = 0; t < entry.out.size(); ++t) {
      entries_.out[t * members_ + member] = entry.out[t];
    }
    entries_.accumulate[member] = entry.accumulate ? 1 : 0;
    const int64_t number = state.entered.load(std::memory_order_relaxed) + 1;
    state.entered.store(number, std::memory_order_relaxed);
    if (entered_.fetch_add(1) + 1 < number * members_) return;
    // In a plan that is not live the members may never meet in one exchange.
    for (int other = 0; other < members_; ++other) {
      if (!HasEntered(other, member)) return;
    }
    work_ = entry.work;
    done_.store(0);
    uint64_t taken = taken_.load();
    do {
      if ((taken & kClosed) != 0) {
        // The others wait for the pieces of the exchange before this one, which are done.
        done_.store(CountPieces(taken));
        return WakeOthers(member);
      }
    } while (!taken_.compare_exchange_weak(taken, ExchangeName(number) << kPieceBits));
    // The last member to enter runs a single piece itself: the others are woken when it is done.
    if (work_->pieces() != 1) WakeOthers(member);
  }

  Progress Poll(int member, ThreadPool* pool) override {
    const uint64_t taken = taken_.load();
    if ((taken & kClosed) != 0) return IsAtRest(taken) ? kFailed : kWaiting;
    if (!IsAbout(taken, member)) return kWaiting;
    const int left = work_->pieces() - CountPieces(taken);
    if (left <= 0) return IsAtRest(taken) ? kOver : kWaiting;
    // A piece is a few microseconds of work, so the pool's threads are used only if each has
    // several.
    const int threads = std::min(pool == nullptr ? 1 : pool->threads(), left / 2);
    const uint64_t name = taken >> kPieceBits;
    if (threads > 1) {
      pool->ParallelFor(threads, [&](int, int) { Work(name, member); });
    } else {
      Work(name, member);
    }
    return done_.load() == work_->pieces() && (taken_.load() & kClosed) == 0 ? kOver : kWorked;
  }

  bool CanProgress(int member) const override {
    const uint64_t taken = taken_.load();
    if ((taken & kClosed) != 0) return IsAtRest(taken);
    return IsAbout(taken, member) && (CountPieces(taken) < work_->pieces() || IsAtRest(taken));
  }

  bool HasEntered(int member, int than) const override {
    const MemberState &state = states_[member], &other = states_[than];
    const int64_t ahead = state.entered.load(std::memory_order_relaxed) -
                          other.entered.load(std::memory_order_relaxed);
    const bool same =
        state.work.load(std::memory_order_relaxed) == other.work.load(std::memory_order_relaxed);
    return ahead > 0 || (ahead == 0 && same);
  }

  void Abort(const absl::Status& status) override {
    {
      const std::lock_guard lock(mutex_);
      if (!status_.ok()) return;
      status_ = status;
    }
    taken_.fetch_or(kClosed);
    WakeOthers(-1);
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  struct alignas(64) MemberState {
    std::atomic<int64_t> entered{0};  // exchanges; written by the member
    std::atomic<const ExchangeWork*> work{nullptr};
  };

  static int CountPieces(uint64_t taken) { return static_cast<int>(taken & kPieces); }
  bool IsAbout(uint64_t taken, int member) const {
    return taken >> kPieceBits ==
           ExchangeName(states_[member].entered.load(std::memory_order_relaxed));
  }
  // True if all pieces that were taken are done.
  bool IsAtRest(uint64_t taken) const { return done_.load() == CountPieces(taken); }

  bool TakePiece(uint64_t name, int* piece) {
    uint64_t taken = taken_.load();
    for (;;) {
      // A closed communicator has another name.
      if (taken >> kPieceBits != name || CountPieces(taken) >= work_->pieces()) return false;
      if (!taken_.compare_exchange_weak(taken, taken + 1)) continue;
      *piece = CountPieces(taken);
      return true;
    }
  }

  void Work(uint64_t name, int member) {
    for (int piece = 0; TakePiece(name, &piece);) {
      const int pieces = work_->pieces();
      work_->Run(piece, entries_);
      const int done = done_.fetch_add(1) + 1;
      const uint64_t taken = taken_.load();
      if (done == pieces || ((taken & kClosed) != 0 && IsAtRest(taken))) WakeOthers(member);
    }
  }

  void WakeOthers(int member) {
    for (int other = 0; other < members_; ++other) {
      if (other != member) wake_(other);
    }
  }

  const int64_t members_;
  std::function<void(int)> wake_ = [](int) {};
  ExchangeEntries entries_;
  std::unique_ptr<MemberState[]> states_;
  const ExchangeWork* work_ = nullptr;  // the exchange that taken_ names
  mutable std::mutex mutex_;
  absl::Status status_;  // under mutex_
  alignas(64) std::atomic<int64_t> entered_{0};
  // Closed: bit 63; (exchanges that all have entered) << 31; pieces taken.
  alignas(64) std::atomic<uint64_t> taken_{0};
  alignas(64) std::atomic<int> done_{0};
};

}  // namespace

std::unique_ptr<Communicator> MakeLocalCommunicator(int members, int tensors) {
  return std::make_unique<LocalCommunicator>(members, tensors);
}

}  // namespace oneflow
