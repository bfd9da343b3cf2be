#include "tools/oneflow/interrupt.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <utility>

namespace oneflow {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
// How soon a signal is noticed.
constexpr std::chrono::milliseconds kPeriod{20};

std::atomic<bool> signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a handler may touch it

void Watch(const std::stop_token& stop, const std::function<void()>& cancel) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    if (signalled.load()) cancel();
    ended.wait_for(lock, stop, kPeriod, [] { return false; });
  }
}

}  // namespace

Interrupt::Interrupt(std::function<void()> cancel) {
  signalled = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { signalled.store(true); };
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // the second one does what it did before
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
  watcher_ = std::jthread(
      [cancel = std::move(cancel)](const std::stop_token& stop) { Watch(stop, cancel); });
}

Interrupt::~Interrupt() {
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) std::signal(signal, SIG_DFL);
  }
}

}  // namespace oneflow
