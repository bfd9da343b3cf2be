#include "tools/oneflow/cli/interrupt.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <utility>

#include "tools/oneflow/cli/caller.h"

namespace oneflow {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
// The period of the calls of `end`.
constexpr std::chrono::milliseconds kPeriod{20};

// Two within so many milliseconds are one that was sent twice: timeout(1) signals its child and
// then the group the child is in.
constexpr int64_t kTwice = 100;

// The number of the first signal; 0: none.
std::atomic<int64_t> first_at{0};
std::atomic<bool> report_requested{false};
// A handler may touch them.
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

int64_t Milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 + 1;
}

void Handle(int signal) {
  int64_t first = 0;
  const int64_t now = Milliseconds();
  const bool is_first = first_at.compare_exchange_strong(first, now);
  if (is_first || now - first < kTwice) return;
  std::signal(signal, SIG_DFL);
  raise(signal);  // taken when this returns
}

// True once the run is to end: by a signal, or because the caller says so.
bool MustEnd(const Caller* caller) {
  return caller == nullptr ? first_at.load() != 0 : caller->stopped();
}

void Watch(const std::stop_token& stop, const Caller* caller, const std::function<void()>& end) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  bool called = false;
  while (!stop.stop_requested()) {
    if (MustEnd(caller)) end(), called = true;
    ended.wait_for(lock, stop, kPeriod, [] { return false; });
  }
  if (MustEnd(caller) && !called) end();  // what it stopped was over sooner
}

}  // namespace

Interrupt::Interrupt(std::function<void()> end) {
  first_at = 0;
  watcher_ = std::jthread([caller = CurrentCaller(), end = std::move(end)](
                              const std::stop_token& stop) { Watch(stop, caller, end); });
  if (CurrentCaller() != nullptr) return;
  struct sigaction action = {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  if (CurrentCaller() != nullptr) return;
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) std::signal(signal, SIG_DFL);
  }
}

void ListenToSigusr1() {
  struct sigaction action = {};
  action.sa_handler = [](int) { report_requested.store(true); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

bool TakeReportRequest() { return report_requested.exchange(false); }

}  // namespace oneflow
