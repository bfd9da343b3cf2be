// Invariants:
//   1. `fn` and the shares change only while the loop is closed and no other thread is inside it.
//   2. `state` = open bit | threads inside. A thread of the pool enters only by incrementing it
//      while the bit is set; the caller leaves ParallelFor only after it has cleared the bit and
//      seen no thread inside. A thread that wakes up late costs nothing: it finds the loop closed.
//   3. A task is run once, by the thread that takes it from its share.
//   4. `epoch` changes once a loop and once at the end; the pool's threads park on it alone.
#include "actor_runtime/device/thread_pool.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <glog/logging.h>

#include "actor_runtime/device/spin.h"

namespace oneflow {
namespace {

constexpr uint32_t kOpen = 1u << 31;

}  // namespace

struct ThreadPool::Impl {
  using Function = absl::FunctionRef<void(int, int)>;
  // The tasks that a thread begins with; other threads may take those that are left.
  struct alignas(64) Share {
    std::atomic<int> next{0};
    int end = 0;
  };

  explicit Impl(int threads) : shares(threads) {}

  std::atomic<uint32_t> state{0};
  std::atomic<uint32_t> epoch{0};
  std::atomic<bool> stop{false};
  const Function* fn = nullptr;
  std::vector<Share> shares;  // by thread
  std::vector<std::thread> workers;

  // One after the other, alike in size: loops over the same rows give a thread the same ones, which
  // it then has in its own cache.
  void Deal(int tasks) {
    const auto n = static_cast<int64_t>(shares.size());
    for (int64_t i = 0; i < n; ++i) {
      shares[i].next.store(static_cast<int>(i * tasks / n), std::memory_order_relaxed);
      shares[i].end = static_cast<int>((i + 1) * tasks / n);
    }
  }

  // Its own share, then what others have left of theirs.
  void RunTasks(int thread) {
    for (size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(thread + i) % shares.size()];
      for (int t; (t = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        (*fn)(t, thread);
      }
    }
  }

  bool Enter() {
    uint32_t s = state.load(std::memory_order_relaxed);
    while (s & kOpen) {
      if (state.compare_exchange_weak(s, s + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  void Leave() {
    // The caller parks only on a closed loop, so only the last thread to leave has to wake it.
    if (state.fetch_sub(1, std::memory_order_acq_rel) == 1) state.notify_one();
  }

  void Help(int thread) {
    uint32_t seen = 0;
    while (true) {
      auto changed = [&] { return epoch.load(std::memory_order_acquire) != seen; };
      if (!SpinUntil(changed)) epoch.wait(seen, std::memory_order_acquire);
      seen = epoch.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      if (!Enter()) continue;
      RunTasks(thread);
      Leave();
    }
  }

  void Wake() {
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
  }

  void AwaitWorkers() {
    uint32_t s = state.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
    if (s == 0) return;
    if (SpinUntil([&] { return state.load(std::memory_order_acquire) == 0; })) return;
    while ((s = state.load(std::memory_order_acquire)) != 0)
      state.wait(s, std::memory_order_acquire);
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>(threads)) {
  CHECK_GE(threads, 1);
  impl_->workers.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) impl_->workers.emplace_back([this, i] { impl_->Help(i); });
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true, std::memory_order_relaxed);
  impl_->Wake();
  for (std::thread& t : impl_->workers) t.join();
}

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::ParallelFor(int tasks, absl::FunctionRef<void(int task, int thread)> fn) {
  if (tasks <= 1 || impl_->workers.empty()) {
    for (int t = 0; t < tasks; ++t) fn(t, 0);
    return;
  }
  impl_->fn = &fn;
  impl_->Deal(tasks);
  impl_->state.store(kOpen, std::memory_order_release);
  impl_->Wake();
  impl_->RunTasks(0);
  impl_->AwaitWorkers();
}

}  // namespace oneflow
